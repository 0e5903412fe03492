package shadow

import (
	"time"

	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// sight is what one host saw of one tick, as it travels between the processes of a dry run. Times are
// milliseconds since the epoch by Redis' clock.
type sight struct {
	What what   `json:"w"`
	Host string `json:"h"`
	Job  string `json:"j"`
	Lock string `json:"l,omitempty"`
	Tick int64  `json:"t"`
	At   int64  `json:"a,omitempty"`

	Kind  ledger.Kind  `json:"k,omitempty"` // of a win
	Found ledger.Found `json:"f,omitempty"` // of a win: what the tick was before
	Hold  int64        `json:"p,omitempty"` // of a win: how long it is held, in ms; less if it is timed out

	Holder    string `json:"by,omitempty"` // the host that held the lock
	HolderJob string `json:"bj,omitempty"`

	Count   int    `json:"n,omitempty"` // of unrun: ticks up to this one
	Outcome string `json:"o,omitempty"` // of ended
}

// what is what became of a tick, or of a host's wish for it.
type what string

const (
	won     what = "won"
	skipped what = "skipped" // its lock was held
	waiting what = "waiting" // likewise, and it waits
	missed  what = "missed"  // its start deadline had passed
	unrun   what = "unrun"   // ticks before it were never claimed
	came    what = "came"    // the host wanted it, and found it decided
	ended   what = "ended"   // a held lease ended otherwise than by itself
)

// sightsOf makes sights of what a scheduler saw: none, mostly one.
func sightsOf(host string, s *scheduler.Sight, hold time.Duration) []sight {
	base := sight{Host: host, Job: s.Job, Lock: s.Lock, Tick: s.Tick.UnixMilli(), At: s.At.UnixMilli()}
	if s.Left {
		base.What = came
		return []sight{base}
	}
	d := &s.Decision
	if d.Err != nil {
		return nil
	}
	var out []sight
	if d.Unrun.N > 0 {
		before := base
		before.What, before.Count = unrun, d.Unrun.N
		out = append(out, before)
	}
	switch d.Answer {
	case ledger.Won:
		base.What, base.At, base.Kind, base.Found, base.Hold = won, d.Won.UnixMilli(), s.Kind, d.Found, hold.Milliseconds()
		if d.Found == ledger.FoundRerun {
			base.Kind = ledger.Rerun
		}
	case ledger.Held:
		base.Holder, base.HolderJob = d.Holder, d.HolderJob
		switch d.Decided {
		case ledger.Skipped:
			base.What = skipped
		case ledger.Waiting:
			base.What = waiting
		case ledger.Undecided, ledger.Missed:
			return out
		}
	case ledger.Late:
		if d.Decided != ledger.Missed {
			return out
		}
		base.What = missed
	case ledger.Already:
		base.What = came
	case ledger.Early, ledger.Behind, ledger.Paused, ledger.Drained, ledger.Future:
		return out // it is asked again, or nobody's
	}
	return append(out, base)
}

// endedSight is that of a hold that did not end by itself.
func endedSight(host string, run jobs.Run, outcome string, now time.Time) sight {
	return sight{
		What: ended, Host: host, Job: run.Job, Lock: run.Lock, Tick: run.Tick.UnixMilli(), At: now.UnixMilli(), Outcome: outcome,
	}
}
