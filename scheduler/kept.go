package scheduler

import (
	"time"

	"rota/scheduler/ledger"
)

// KeptOutcome is how one run ended, of which Redis does not know yet. Its grant must be one that
// [ledger.Grant.Check] finds nothing wrong with.
type KeptOutcome struct {
	Grant  ledger.Grant
	Ending ledger.Ending
	Drop   func() error // forgets it; called once, when Redis has it
}

// OutcomeStore keeps outcomes for longer than this process lives. It must be safe for concurrent use.
// The daemon's is a folder on disk.
type OutcomeStore interface {
	// Keep stores an outcome so that it survives the machine. drop forgets it; it may be called long
	// after. Neither g nor e is kept or changed. With an error the outcome stays in memory, and Keep
	// is called again a minute later; the log has an error once, so its text should be the same for
	// every outcome.
	Keep(g *ledger.Grant, e *ledger.Ending) (drop func() error, err error)
	// Left returns the outcomes that an earlier process left, oldest first. It is called once, by
	// [Scheduler.Run].
	Left() []KeptOutcome
}

// keepAgain is how often an outcome is offered to a store that refused it: somebody may have made
// room.
const keepAgain = time.Minute

// keep stores an outcome that Redis did not take, for the reason given. A store that fails costs one
// line for each reason, and the outcome goes on in memory.
func (s *Scheduler) keep(d *delivery, why error) {
	if d.drop != nil || s.opt.Outcomes == nil || time.Now().Before(d.keepAt) {
		return
	}
	drop, err := s.opt.Outcomes.Keep(d.grant, &d.ending)
	if err != nil {
		d.keepAt = time.Now().Add(keepAgain)
		if s.newStoreFault(err) {
			d.log.Warn("outcome not kept", "outcome", d.ending.Outcome, "err", err,
				"effect", "this one, and those after it, are lost if the daemon ends before redis is back")
		}
		return
	}
	d.drop = drop
	d.log.Info("outcome kept", "outcome", d.ending.Outcome, "err", why)
}

// newStoreFault tells whether the log shall say this fault of the store: it is another one than
// last time, or that was a while ago.
func (s *Scheduler) newStoreFault(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := err.Error(); text != s.storeFault || time.Since(s.storeSaid) >= remind {
		s.storeFault, s.storeSaid = text, time.Now()
		return true
	}
	return false
}

// drop forgets an outcome that Redis has taken.
func (s *Scheduler) drop(d *delivery) {
	if d.drop == nil {
		return
	}
	if err := d.drop(); err != nil && s.newStoreFault(err) {
		d.log.Warn("kept outcome not removed", "err", err, "effect", "the next daemon delivers it once more, which changes nothing")
	}
}

// deliverLeft delivers what an earlier daemon could not, whether its jobs are in the table or not.
// Outcomes of this daemon's own runs come after those of their job.
func (s *Scheduler) deliverLeft() {
	if s.opt.Outcomes == nil {
		return
	}
	left := s.opt.Outcomes.Left()
	if len(left) > 0 {
		s.log.Info("outcomes of an earlier daemon found", "count", len(left), "effect", "they are delivered when redis answers")
	}
	for i := range left {
		o := &left[i]
		c := &o.Grant.Claim
		d := s.newDelivery(&o.Grant, o.Ending, s.log.With("job", c.Job, "tick", c.Tick, "run", c.Run, "token", o.Grant.Fence))
		d.drop, d.failed = o.Drop, true
		s.work.Go(func() {
			select {
			case <-s.contact:
			case <-s.leaving.Done():
			}
			s.deliver(d)
		})
	}
}
