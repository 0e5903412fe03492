package demo

import (
	"fmt"
	"time"

	"rota/scheduler/ledger"
)

// The results of a [Verdict].
const (
	Passed = "passed" // no faults
	Failed = "failed"
)

// A Verdict is what the ledger and the jobs' own file say of a demo. Its JSON is one object.
type Verdict struct {
	Result string `json:"result"` // Passed or Failed

	Hosts int       `json:"hosts"`
	Jobs  []string  `json:"jobs"`
	From  time.Time `json:"from"`  // ticks after this instant were due…
	Until time.Time `json:"until"` // …up to this one, by Redis' clock
	Early bool      `json:"early"` // it was ended before its time

	// Due = Runs + Skipped + Missed + Unaccounted: each tick counts once.
	Due         int `json:"ticks_due"`
	Runs        int `json:"runs"`
	Skipped     int `json:"skipped"`
	Missed      int `json:"missed"`
	Unaccounted int `json:"unaccounted"` // no run, and no entry that says why not

	Doubles      int  `json:"doubles"` // ticks that ran more than once, in the ledger or in the file
	Lost         int  `json:"lost"`    // runs that ended with their host
	Takeovers    int  `json:"takeovers"`
	TokensRising bool `json:"tokens_rising"`
	Witnessed    int  `json:"witnessed"` // runs that the file knows, those outside of the window too

	Killed   string `json:"killed"`    // the host that was; "" if none was
	LeftOver int    `json:"left_over"` // processes that outlived their host
	Drained  int    `json:"drained"`   // hosts that ended well when they were asked to

	Faults []string `json:"faults"`

	takeover *takenOver
}

// takenOver is the last takeover in the ledger, for the sentence about it.
type takenOver struct {
	job, host string
	after     time.Duration // from the lost run's win to the next
}

// evidence is what a verdict is found from.
type evidence struct {
	hosts       int
	jobs        []string
	from, until time.Time
	early       bool

	due       []tickOf       // computed from the schedules
	entries   []ledger.Entry // of the ledger, oldest first
	witness   []testimony    // of the jobs' own file, in its order
	illegible []string       // lines of the file that are no testimony

	killed   string
	leftOver []string // what they are
	ends     []ending
}

// tickOf names a tick.
type tickOf struct {
	job  string
	tick int64 // Unix time in seconds
}

// testimony is what a run wrote of itself.
type testimony struct {
	tickOf
	token int64
	host  string
}

// ending is how a host ended that was not killed for show.
type ending struct {
	host string
	how  string
	well bool
}

// judge finds the verdict. It is pure. Whatever it finds fault with is in Faults, a sentence each.
func judge(e evidence) *Verdict {
	v := &Verdict{
		Hosts: e.hosts, Jobs: e.jobs, From: e.from.UTC(), Until: e.until.UTC(), Early: e.early,
		Due: len(e.due), Witnessed: len(e.witness), Killed: e.killed, LeftOver: len(e.leftOver),
		TokensRising: true, Faults: []string{},
	}
	v.account(&e)
	v.countDoubles(&e)
	v.compare(&e)
	v.checkTokens(&e)
	v.countTakeovers(e.entries)
	for _, what := range e.leftOver {
		v.fault("left over: %s", what)
	}
	for _, end := range e.ends {
		if end.well {
			v.Drained++
		} else {
			v.fault("%s", end.how)
		}
	}
	v.Result = Passed
	if len(v.Faults) > 0 {
		v.Result = Failed
	}
	return v
}

func (v *Verdict) fault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// isRun tells a run from an entry about ticks that had none.
func isRun(e *ledger.Entry) bool { return e.Run != "" }

// account finds for each tick that was due what became of it.
func (v *Verdict) account(e *evidence) {
	ran := map[tickOf]bool{}
	for i := range e.entries {
		if entry := &e.entries[i]; isRun(entry) {
			ran[tickOf{entry.Job, entry.Tick.Unix()}] = true
		}
	}
	for _, d := range e.due {
		switch outcome := outcomeOf(d, ran[d], e.entries); outcome {
		case "run":
			v.Runs++
		case ledger.OutcomeSkipped:
			v.Skipped++
		case ledger.OutcomeMissed:
			v.Missed++
		default:
			v.Unaccounted++
			v.fault("the ledger knows nothing of the tick %s", d)
		}
	}
}

// outcomeOf is "run", skipped or missed; "" if the ledger says nothing. An entry about a range
// covers what lies in it.
func outcomeOf(d tickOf, ran bool, entries []ledger.Entry) string {
	if ran {
		return "run"
	}
	for i := range entries {
		e := &entries[i]
		last := e.Tick
		if !e.Until.IsZero() {
			last = e.Until
		}
		if !isRun(e) && e.Job == d.job && e.Tick.Unix() <= d.tick && d.tick <= last.Unix() {
			return e.Outcome
		}
	}
	return ""
}

// countDoubles looks for ticks that ran twice, also outside of the window: those are no better.
// No job of the demo asks for reruns, so a second run is always one too many.
func (v *Verdict) countDoubles(e *evidence) {
	double := map[tickOf]bool{}
	find := func(where string, runs []testimony) {
		first := map[tickOf]testimony{}
		for _, r := range runs {
			other, again := first[r.tickOf]
			if !again {
				first[r.tickOf] = r
				continue
			}
			double[r.tickOf] = true
			v.fault("%s has the tick %s twice: on %s with token %d, on %s with token %d",
				where, r.tickOf, other.host, other.token, r.host, r.token)
		}
	}
	find("the ledger", runsOf(e.entries))
	find("the jobs' file", e.witness)
	v.Doubles = len(double)
}

// compare holds the two witnesses against each other. A run that the ledger takes for lost, or
// for one that could not start, need not have come to write anything.
func (v *Verdict) compare(e *evidence) {
	recorded := map[testimony]bool{}
	for _, r := range runsOf(e.entries) {
		recorded[r] = true
	}
	witnessed := map[testimony]bool{}
	for _, r := range e.witness {
		witnessed[r] = true
		if !recorded[r] {
			v.fault("the jobs' file has a run that the ledger does not know: %s on %s with token %d", r.tickOf, r.host, r.token)
		}
	}
	for i := range e.entries {
		entry := &e.entries[i]
		if r := runOf(entry); isRun(entry) && entry.Outcome == "succeeded" && !witnessed[r] {
			v.fault("the ledger has a run that wrote nothing: %s on %s with token %d", r.tickOf, r.host, r.token)
		}
	}
	for _, line := range e.illegible {
		v.fault("the jobs' file has a line that no run writes: %q", line)
	}
}

// checkTokens looks for one that does not rise, job by job: each has a lock of its own.
func (v *Verdict) checkTokens(e *evidence) {
	check := func(where string, runs []testimony) {
		last := map[string]testimony{}
		for _, r := range runs {
			if before, ok := last[r.job]; ok && r.token <= before.token {
				v.TokensRising = false
				v.fault("in %s, the token of %s does not rise: %d for %s, then %d for %s",
					where, r.job, before.token, before.tickOf, r.token, r.tickOf)
			}
			last[r.job] = r
		}
	}
	check("the ledger", runsOf(e.entries))
	check("the jobs' file", e.witness)
}

// countTakeovers counts the runs that follow, on another host, one that was lost.
func (v *Verdict) countTakeovers(entries []ledger.Entry) {
	lostRun := map[string]*ledger.Entry{}
	for i := range entries {
		e := &entries[i]
		if !isRun(e) {
			continue
		}
		if old := lostRun[e.Job]; old != nil && old.Host != e.Host {
			v.Takeovers++
			v.takeover = &takenOver{job: e.Job, host: e.Host, after: e.Won.Sub(old.Won)}
		}
		delete(lostRun, e.Job)
		if e.Outcome == ledger.OutcomeLost {
			v.Lost++
			lostRun[e.Job] = e
		}
	}
}

// runsOf are the runs among entries, in their order.
func runsOf(entries []ledger.Entry) []testimony {
	var runs []testimony
	for i := range entries {
		if e := &entries[i]; isRun(e) {
			runs = append(runs, runOf(e))
		}
	}
	return runs
}

// runOf is an entry of a run as the run itself tells it.
func runOf(e *ledger.Entry) testimony {
	return testimony{tickOf{e.Job, e.Tick.Unix()}, e.Token, e.Host}
}

// String names a tick as people do.
func (t tickOf) String() string {
	return time.Unix(t.tick, 0).UTC().Format("15:04:05") + " of " + t.job
}
