package scheduler

import "time"

// outcomeAnswered takes in what Redis said to the outcome of a run, and returns how long to wait
// at most before it is told again. One that it refuses waits for somebody to act, and meanwhile the
// ledger calls the run lost: it is said, once for each reason.
func (s *Scheduler) outcomeAnswered(r *run, err error) (longest time.Duration) {
	c := &r.grant.Claim
	about := "the outcome of " + c.Job // no job is called so: its claims' refusals are kept under its name
	switch {
	case err == nil:
		s.newRefusal(about, nil)
	case unanswered(err):
	case s.newRefusal(about, err):
		r.log.Warn("outcome refused by redis", "lock", s.opt.Ledger.LeaseKey(c.Lock), "err", err,
			"effect", "the ledger has the run as lost until somebody acts")
		return refusedBackoff
	default:
		return refusedBackoff
	}
	return lastBackoff
}
