package scheduler

import "time"

// outcomeAnswered takes in what Redis said to the outcome of a run, and returns how long to wait
// at most before it is told again. One that it refuses waits for somebody to act, and meanwhile the
// ledger calls the run lost: it is said, once for each reason.
func (s *Scheduler) outcomeAnswered(d *delivery, err error) (longest time.Duration) {
	c := &d.grant.Claim
	about := "the outcome of " + c.Job // no job is called so: its claims' refusals are kept under its name
	switch {
	case err == nil:
		s.newRefusal(about, nil)
		return 0
	case unanswered(err):
		// Whoever would run the tick again waits for the outcome, for one RenewEvery.
		return min(lastBackoff, s.opt.RenewEvery/2)
	}
	// What the log said last of the job is about another outcome, perhaps, with a key of its own.
	news := s.newRefusal(about, err) && err.Error() != d.refused
	d.refused = err.Error()
	if news {
		d.log.Warn("outcome refused by redis", "lock", s.opt.Ledger.LeaseKey(c.Lock), "err", err,
			"effect", "the ledger has the run as lost until somebody acts")
	}
	return refusedBackoff
}
