package scheduler

import (
	"context"
	"fmt"
	"time"

	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// A grant is known by its lock and its fencing token: no other of that lock has the same.
type grantKey struct {
	lock  string
	fence int64
}

// hold keeps the lease of a run: the keeper renews it, and its end ends the run's context.
func (s *Scheduler) hold(r *run, sent locking.Instant) {
	c := &r.grant.Claim
	s.mu.Lock()
	s.runs[c.Token] = r
	s.mu.Unlock()
	lease := s.keeper.Keep(context.Background(), locking.Grant{
		Name: c.Lock, Token: c.Token, Fence: r.grant.Fence, TTL: c.TTL, Sent: sent,
	})
	s.mu.Lock()
	r.lease = lease
	s.held[grantKey{c.Lock, r.grant.Fence}] = r
	s.mu.Unlock()
	s.vouch(r)
}

func (s *Scheduler) release(r *run) {
	s.mu.Lock()
	delete(s.runs, r.grant.Claim.Token)
	delete(s.held, grantKey{r.grant.Claim.Lock, r.grant.Fence})
	s.mu.Unlock()
}

// TokenOf returns the fencing token of a run that goes on here, for whoever writes in its name. It is false
// if there is none of that id, or if its lease cannot be trusted any more: somebody else may have the lock.
// A run that was told to end has its token until its lease does, to clean up with. It is safe for concurrent
// use.
func (s *Scheduler) TokenOf(run string) (token int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.grant.Claim.Run == run && r.lease != nil {
			return r.grant.Fence, r.lease.Remaining() > 0
		}
	}
	return 0, false
}

// vouch moves the run's deadlines to what its lease allows: its last process must be killed before the
// trust deadline, and has had the loss grace by then. The warden keeps them, whatever becomes of this
// process; renewals alone move them on.
func (s *Scheduler) vouch(r *run) {
	r.vouching.Lock()
	defer r.vouching.Unlock()
	if r.lost {
		return
	}
	kill := r.lease.TrustedUntil().Boottime() - KillMargin(r.grant.Claim.TTL)
	r.deadlines.Move(kill-s.opt.LossGrace, kill)
}

// disown moves the deadlines of a run whose lease was lost to now and, at most, the loss grace from now.
// The lock may be another's already. Renewals that are still confirmed keep it until then, and change
// nothing here.
func (s *Scheduler) disown(r *run, now locking.Instant) {
	r.vouching.Lock()
	defer r.vouching.Unlock()
	r.lost = true
	term := now.Boottime()
	kill := r.lease.TrustedUntil().Boottime() - KillMargin(r.grant.Claim.TTL)
	r.deadlines.Move(term, min(term+s.opt.LossGrace, kill))
}

// renewed is the keeper's: it hears of every renewal that was confirmed.
func (s *Scheduler) renewed(e locking.Event) {
	if e.Kind != locking.EventRenewed {
		return
	}
	s.mu.Lock()
	r := s.held[grantKey{e.Name, e.FencingToken}]
	s.mu.Unlock()
	if r != nil {
		s.vouch(r)
	}
}

// renew is the keeper's: it renews in one pipeline, and passes on what others ask of the runs.
func (s *Scheduler) renew(ctx context.Context, grants []locking.Grant) []error {
	errs := make([]error, len(grants))
	runs := make([]*run, len(grants))
	asked := make([]*ledger.Grant, 0, len(grants))
	s.mu.Lock()
	for i, g := range grants {
		if runs[i] = s.runs[g.Token]; runs[i] == nil {
			errs[i] = locking.ErrLost // released between the keeper's look and ours
			continue
		}
		asked = append(asked, &runs[i].grant)
	}
	s.mu.Unlock()
	sent := s.keeper.Now()
	answers := s.opt.Urgent.Renew(ctx, asked)
	k := 0
	for i, r := range runs {
		if r == nil {
			continue
		}
		a := answers[k]
		k++
		s.heard(sent, a.Now, a.Err)
		switch {
		case a.Err != nil:
			errs[i] = a.Err
		case !a.Renewed:
			errs[i] = locking.ErrLost
		case a.Cancel != "":
			r.cancel(fmt.Errorf("%w by %s", jobs.ErrCancelled, a.Cancel))
		case a.End != "":
			r.cancel(fmt.Errorf("%w: %s", jobs.ErrCancelled, wordsOf(a.End)))
		}
	}
	return errs
}

// KillMargin is how long before the trust deadline the last process of a run must be killed,
// so that it is dead by then: 5 % of the lease, at least 50 ms.
func KillMargin(ttl time.Duration) time.Duration { return max(ttl/20, 50*time.Millisecond) }

// watch ends the run's context when its lease is being lost, and closes its Kill channel in
// time. It looks at the clocks every 100 ms then, for a timer stands still while a machine
// sleeps. It returns when over is closed.
func (s *Scheduler) watch(r *run, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-s.killed:
		r.cancel(fmt.Errorf("%w: the daemon was told to stop at once", jobs.ErrInterrupted))
		close(r.kill)
		return
	case <-r.lease.Done():
	}
	// Renewals that fail were given up LossGrace before the deadline. After a refusal the lock
	// may be another's already: the grace runs from now, and not beyond the deadline either.
	told := s.keeper.Now()
	ttl := r.grant.Claim.TTL
	r.cancel(fmt.Errorf("%w: %w", jobs.ErrLost, context.Cause(r.lease.Context())))
	s.disown(r, told)
	r.log.Warn("lease lost", "lock", r.grant.Claim.Lock, "err", r.lease.Err(), "left", r.lease.Remaining())
	for {
		// Not by what remains of the lease, which is nothing once it was refused. The later clock counts.
		now := s.keeper.Now()
		left := min(s.opt.LossGrace-now.Sub(told), -now.Sub(r.lease.TrustedUntil())-KillMargin(ttl))
		if left <= 0 {
			close(r.kill)
			return
		}
		timer := time.NewTimer(min(left, 100*time.Millisecond))
		select {
		case <-over:
			timer.Stop()
			return
		case <-s.killed:
			timer.Stop()
			close(r.kill)
			return
		case <-timer.C:
		}
	}
}
