package scheduler

import (
	"strconv"
	"strings"
	"time"
)

// Scope says on how many hosts a tick runs.
type Scope string

// The scopes. The zero value is ScopeOnce.
const (
	ScopeOnce Scope = "once" // on one host of the fleet
	ScopeHost Scope = "host" // on every host: each has a job NAME@HOST, and a lock LOCK@HOST, of its own
)

// Overlap says what happens to a tick whose lock is still held.
type Overlap string

// The overlap policies. The zero value is OverlapSkip.
const (
	OverlapSkip    Overlap = "skip"    // the tick is skipped, and recorded as that
	OverlapQueue   Overlap = "queue"   // the newest such tick waits for the lock
	OverlapReplace Overlap = "replace" // the older run is asked to end, the tick waits for it
	OverlapAllow   Overlap = "allow"   // runs of one job may overlap
)

// Misfire says what happens to ticks that nobody ran in time.
type Misfire string

// The misfire policies. The zero value is MisfireSkip.
const (
	MisfireSkip Misfire = "skip" // they are recorded as missed
	MisfireOnce Misfire = "once" // the newest runs late
	MisfireAll  Misfire = "all"  // they run in order, at most the last 100
)

// OnCrash says what happens to a tick whose run ended with its host.
type OnCrash string

// The crash policies. The zero value is CrashSkip.
const (
	CrashSkip  OnCrash = "skip"  // the run is lost
	CrashRerun OnCrash = "rerun" // another host runs the tick once more, under a higher token
)

// wordsOf puts what a script asks of a run into words: it knows instants in milliseconds.
func wordsOf(end string) string {
	const replaced = "replaced by tick "
	text, ok := strings.CutPrefix(end, replaced)
	ms, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return end
	}
	return replaced + time.UnixMilli(ms).UTC().Format(time.RFC3339)
}
