package ledger

import (
	"encoding/json"
	"time"
)

// Kind is why there is a run.
type Kind string

// The kinds of a run.
const (
	Scheduled Kind = "scheduled" // for its tick, in time
	Misfire   Kind = "misfire"   // for its tick, late, by the job's misfire policy
	Rerun     Kind = "rerun"     // for a tick whose first run ended with its host
	Manual    Kind = "manual"    // asked for by a person
)

// The outcomes that the ledger itself gives. Those of a run that ended come from its host.
const (
	OutcomeRunning = "running"
	OutcomeLost    = "lost"
	OutcomeSkipped = "skipped" // a tick that its job's policy, a pause or a person kept from running
	OutcomeMissed  = "missed"  // a tick that no host ran in time
)

// Entry is one line of the history: a run, or a range of ticks that nobody ran. Its JSON is
// the one of docs and scripts (contract): times are RFC 3339 in UTC, absent ones are left out.
type Entry struct {
	Job        string
	Tick       time.Time // of a range its first
	Until      time.Time // the last tick of a range; zero for a single tick
	Count      int       // ticks in the range; 0 for a single tick
	Run        string
	Kind       Kind
	Host       string
	Lock       string
	Token      int64
	Outcome    string
	Reason     string
	ExitCode   *int
	Won        time.Time // when the claim was won, by Redis' clock
	Started    time.Time // when exec was done, by the host's clock corrected to Redis'
	Ended      time.Time
	Attempt    int
	Reruns     int
	Definition string
	Late       bool // the outcome came after the lease had ended: "reported late"

	CPU             time.Duration // what the run used; 0: not known
	PeakMemoryBytes int64         // most memory at a time; 0: not known

	Request string // the request that a manual run answers
	Who     string // who asked for a manual run
	Holder  string // the host that held the lock, where that is why a tick was skipped

	id    string // of the stream entry behind it; orders entries of one instant
	lease string // key of the lease a run holds
	word  word   // whose word the outcome is
}

// word orders what is known of one run: that it started, that its lease ended without an
// outcome (another host's word), how it ended (its own host's).
type word int

const (
	started word = iota
	presumed
	reported
)

// Lag is how late the claim was won, after the tick. Zero for skips and misses.
func (e *Entry) Lag() time.Duration {
	if e.Won.IsZero() {
		return 0
	}
	return e.Won.Sub(e.Tick)
}

// At is the instant by which the history is ordered: when the run was won, or the tick itself.
func (e *Entry) At() time.Time {
	switch {
	case !e.Won.IsZero():
		return e.Won
	case !e.Until.IsZero():
		return e.Until
	}
	return e.Tick
}

// MarshalJSON writes the entry with the contract's names. It has a value receiver so that an
// Entry and a pointer to one look the same.
func (e Entry) MarshalJSON() ([]byte, error) {
	type entry struct {
		Job        string     `json:"job"`
		Tick       time.Time  `json:"tick"`
		Until      *time.Time `json:"until,omitempty"`
		Count      int        `json:"count,omitempty"`
		Run        string     `json:"run,omitempty"`
		Kind       Kind       `json:"kind,omitempty"`
		Host       string     `json:"host,omitempty"`
		Lock       string     `json:"lock,omitempty"`
		Token      int64      `json:"token,omitempty"`
		Outcome    string     `json:"outcome"`
		Reason     string     `json:"reason"`
		ExitCode   *int       `json:"exit_code"`
		Started    *time.Time `json:"started,omitempty"`
		Ended      *time.Time `json:"ended,omitempty"`
		LagMS      *int64     `json:"lag_ms,omitempty"`
		StartMS    *int64     `json:"start_ms,omitempty"`
		DurationMS *int64     `json:"duration_ms,omitempty"`
		CPUMS      *int64     `json:"cpu_ms,omitempty"`
		PeakMemory int64      `json:"peak_memory_bytes,omitempty"`
		Attempt    int        `json:"attempt,omitempty"`
		Reruns     *int       `json:"reruns,omitempty"`
		Who        string     `json:"who,omitempty"`
		Definition string     `json:"definition,omitempty"`
	}
	out := entry{
		Job: e.Job, Tick: e.Tick.UTC(), Count: e.Count, Run: e.Run, Kind: e.Kind, Host: e.Host, Lock: e.Lock,
		Token: e.Token, Outcome: e.Outcome, Reason: e.Reason, ExitCode: e.ExitCode, Attempt: e.Attempt, Who: e.Who,
		Definition: e.Definition, PeakMemory: e.PeakMemoryBytes, Until: optional(e.Until), Started: optional(e.Started), Ended: optional(e.Ended),
	}
	if e.CPU > 0 {
		out.CPUMS = new(e.CPU.Round(time.Millisecond).Milliseconds())
	}
	if e.Run != "" {
		out.Reruns = &e.Reruns
		if !e.Won.IsZero() {
			out.LagMS = new(e.Lag().Milliseconds())
		}
		if !e.Started.IsZero() {
			out.StartMS = new(e.Started.Sub(e.Tick).Milliseconds())
			if !e.Ended.IsZero() {
				out.DurationMS = new(e.Ended.Sub(e.Started).Milliseconds())
			}
		}
	}
	return json.Marshal(out)
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}
