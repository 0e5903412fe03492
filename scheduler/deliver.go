package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// An outcome goes to Redis at once, and nothing is written to disk: an fsync for every run would
// cost more than all else that a run costs. It is kept in the store with the first try that fails,
// or before the first if Redis is known to be away; from then on the daemon may end. What is lost
// is the outcome whose first try is under way when the process is killed.
//
// The outcomes of one job are delivered in the order in which its runs ended: each waits for the
// one before it. One that Redis answers and refuses steps aside, for it may wait for somebody to
// act, and the others hold leases that must be given back.

// delivery is an outcome on its way to the ledger. One goroutine owns it.
type delivery struct {
	grant  *ledger.Grant
	ending ledger.Ending
	log    *slog.Logger
	lease  *locking.Lease // the run's, stopped; nil: an earlier daemon's

	turn <-chan struct{} // closed when the outcome before it has passed; nil: there is none
	pass func()          // lets the next one go; may be called again

	drop    func() error // forgets what is stored; nil: it is in memory alone
	keepAt  time.Time    // not to be stored before; zero: the store was not asked
	failed  bool         // a try has failed
	refused string       // why Redis refused it, the last time
}

// newDelivery lines an outcome up behind those of its job. From then on it is on its way.
func (s *Scheduler) newDelivery(g *ledger.Grant, e ledger.Ending, log *slog.Logger) *delivery {
	job, mine := g.Claim.Job, make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &delivery{grant: g, ending: e, log: log, turn: s.lines[job]}
	s.lines[job] = mine
	s.records[g.Claim.Run] = true
	d.pass = sync.OnceFunc(func() {
		close(mine)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lines[job] == mine {
			delete(s.lines, job)
		}
	})
	return d
}

// deliver tries until Redis has the outcome: for as long as the daemon lives, and while it stops as
// long as calls are given; less if it is stored, for then the next daemon can.
func (s *Scheduler) deliver(d *delivery) {
	defer s.settled(d)
	defer d.pass()
	s.awaitTurn(d)
	wait := firstBackoff
	for {
		held, err := s.finish(d)
		longest := s.outcomeAnswered(d, err)
		if err == nil {
			s.delivered(d, held)
			return
		}
		d.failed = true
		s.keep(d, err)
		if !unanswered(err) {
			d.pass()
		}
		if !sleep(s.patience(d), wait) {
			s.undelivered(d, err)
			return
		}
		wait = min(2*wait, longest)
	}
}

// settled notes that an outcome is no longer on its way.
func (s *Scheduler) settled(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, d.grant.Claim.Run)
}

// isDelivering tells whether this host has the outcome of a run, this daemon's or one that an earlier
// one left: what Redis calls a crash is none then.
func (s *Scheduler) isDelivering(run string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[run]
}

// awaitTurn waits for the outcomes of the same job that came before. Those that end together pass
// each other within a moment; any longer, and the store is asked.
func (s *Scheduler) awaitTurn(d *delivery) {
	if d.turn == nil {
		return
	}
	moment := time.NewTimer(firstBackoff)
	defer moment.Stop()
	select {
	case <-d.turn:
		return
	case <-moment.C:
	}
	s.keep(d, errBehind)
	select {
	case <-d.turn:
	case <-s.patience(d).Done():
	}
}

var (
	errBehind = fmt.Errorf("%w: an outcome of the same job is not delivered yet", locking.ErrUnavailable)
	errAway   = fmt.Errorf("%w: it is away", locking.ErrUnavailable)
)

// patience lasts for as long as an outcome is tried again.
func (s *Scheduler) patience(d *delivery) context.Context {
	if d.drop != nil {
		return s.leaving
	}
	return s.ending
}

// finish makes one try, when there is room for a call.
func (s *Scheduler) finish(d *delivery) (held bool, err error) {
	if s.idle(d) {
		return false, errAway
	}
	s.call(func(ctx context.Context) {
		if s.idle(d) {
			err = errAway // what was waited for may have been room that hanging calls took
			return
		}
		held, err = s.opt.Ledger.Finish(ctx, d.grant, d.ending)
		s.heard(s.keeper.Now(), time.Time{}, err)
	})
	return held, err
}

// idle tells that a try would only cost time: Redis is away, and the outcome should rather be stored
// first, or the daemon ends.
func (s *Scheduler) idle(d *delivery) bool {
	unasked := s.opt.Outcomes != nil && d.drop == nil && d.keepAt.IsZero()
	return s.redis.away() && (unasked || s.patience(d).Err() != nil)
}

// away tells whether Redis is known to be away.
func (p *presence) away() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.told.IsZero()
}

// delivered is for an outcome that Redis has taken. held tells whether that freed its lock.
func (s *Scheduler) delivered(d *delivery, held bool) {
	s.drop(d)
	late := !held && d.ending.Outcome != string(jobs.Lost)
	attrs := []any{"outcome", d.ending.Outcome, "after", s.clock.Now().Sub(d.ending.Ended).Round(time.Millisecond)}
	if late {
		attrs = append(attrs, "reason", "the lease had ended, so it is reported late")
	}
	switch {
	case d.failed:
		d.log.Info("outcome delivered", attrs...)
	case late:
		d.log.Warn("outcome recorded late", "reason", "the lease had ended before the run did")
	}
}

// undelivered is for an outcome that is given up by this daemon.
func (s *Scheduler) undelivered(d *delivery, err error) {
	if d.drop != nil {
		s.left.Add(1)
		return
	}
	left := time.Duration(0)
	if d.lease != nil {
		left = d.lease.Remaining()
	}
	d.log.Error("outcome not recorded", "outcome", d.ending.Outcome,
		"lock", s.opt.Ledger.LeaseKey(d.grant.Claim.Lock), "left", left, "err", err)
}
