package scheduler

import (
	"time"

	"rota/locking"
	"rota/scheduler/ledger"
)

// Sight is what this host saw of one tick: the answer to its claim, or, where its turn came after
// another host had decided the tick, that this is so.
type Sight struct {
	Job, Lock string // as the ledger has them: of scope "host" with this host's name
	Tick      time.Time
	Kind      ledger.Kind // of the claim; a rerun is claimed as what it is a rerun of

	// Left: this host found the tick decided by another when its turn came, and did not claim it. It
	// would have claimed then. There is no Decision.
	Left bool

	// At is when the claim was answered, by Redis' clock. Of a tick that was left it is when this
	// host looked, by its estimate of that clock: late by a round trip at most.
	At time.Time
	// Trip is how long the answer took, of claims that were sent together that of all; 0 if Left.
	Trip     time.Duration
	Decision ledger.Decision // with Err: no answer, and nothing else is known
}

// observe tells whoever watches what the ledger decided.
func (s *Scheduler) observe(c *ledger.Claim, d ledger.Decision, sent, got locking.Instant) {
	if s.opt.Observe == nil {
		return
	}
	s.opt.Observe(Sight{
		Job: c.Job, Lock: c.Lock, Tick: c.Tick, Kind: c.Kind,
		At: d.Now, Trip: got.Sub(sent), Decision: d,
	})
}

// observeLeft tells whoever watches that this host came second.
func (s *Scheduler) observeLeft(d Due, at time.Time) {
	if s.opt.Observe == nil {
		return
	}
	s.opt.Observe(Sight{Job: d.Job.Name, Lock: d.Job.LockName(), Tick: d.Tick, Kind: ledger.Scheduled, Left: true, At: at})
}
