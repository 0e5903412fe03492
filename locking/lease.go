package locking

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// Lease is one grant of a lock, from then until it is released or lost. It is used once:
// who wants the lock again acquires it again and gets another Lease, with a larger fencing
// token. It is safe for concurrent use.
type Lease struct {
	keeper *Keeper
	grant  *Grant // behind a pointer, so that fmt never walks into the token
	home   *home  // where a Locker gives the lease back; nil for a bare Keeper's

	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	every  time.Duration // between renewals

	mu      sync.Mutex // guards what follows; taken after the Keeper's
	sent    Instant    // of the newest confirmed request
	err     error      // why the lease ended, set once
	over    bool       // nothing will be renewed any more
	refused bool       // Redis said that it is not ours
	due     time.Time  // of the next renewal
	again   bool       // renew again once the call under way is back
	fails   int        // renewals that failed since the last good one
	failure error      // of the last of these
	batch   *batch     // the call under way
	timer   *time.Timer
}

func newLease(ctx context.Context, k *Keeper, g Grant) *Lease {
	l := &Lease{keeper: k, grant: &g, done: make(chan struct{}), sent: g.Sent}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.every = renewEvery(g.trusted())
	if k.opt.RenewEvery > 0 {
		l.every = min(l.every, k.opt.RenewEvery)
	}
	l.plan()
	return l
}

// Context returns a context that ends when the lease does, with the lease's error as its
// cause ([context.Cause]): a [*LossError] or [ErrReleased]. It also ends with its parent.
// Work done under the lease runs under this context.
func (l *Lease) Context() context.Context { return l.ctx }

// Done returns a channel that is closed when the lease has ended, whatever became of the
// parent of its context. Who attaches late finds it closed.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Err returns nil until Done is closed, then why the lease ended: a [*LossError], which
// matches [ErrLost], or [ErrReleased]. It does not change after that.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Name returns the name of the lock.
func (l *Lease) Name() string { return l.grant.Name }

// FencingToken returns the fencing token: larger than that of every earlier grant of the
// lock. A store that is told it with each write, and refuses those with a smaller one than
// it has seen, is safe from holders that do not know yet that they lost.
func (l *Lease) FencingToken() int64 { return l.grant.Fence }

// Deadline returns the trust deadline: when the lease must be taken for lost if no renewal
// is confirmed before. It moves with each one that is, and never back. It is a time of the
// monotonic clock; where that stopped while the machine slept, the sleep is taken off.
func (l *Lease) Deadline() time.Time {
	now := l.keeper.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline := l.sent.mono.Add(l.grant.trusted())
	// Below a millisecond it is not sleep but two clocks read one after the other.
	if slept := now.slept(l.sent); slept > time.Millisecond {
		deadline = deadline.Add(-slept)
	}
	return deadline
}

// Remaining returns how long the lease can be trusted from now if no renewal is confirmed;
// 0 if it cannot, or if Redis said that it is not the holder's any more. Stop and Release
// do not change it: it tells how long a message about the lease is still of use.
func (l *Lease) Remaining() time.Duration {
	now := l.keeper.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused {
		return 0
	}
	return max(0, l.remaining(now))
}

// Valid tells whether the lease is held and can be trusted at this moment. It can be true
// after the context has ended ([KeeperOptions].Notice), and it can turn false the moment
// after: only the fencing token protects a write that is under way.
func (l *Lease) Valid() bool {
	now := l.keeper.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.refused && !errors.Is(l.err, ErrReleased) && l.remaining(now) > 0
}

// Stop ends the renewals and waits for one that is under way: when it has returned, none
// will ever be sent. The context ends with [ErrReleased], unless the lease was lost before.
// The lock itself stays as it is, for the caller to release or to let expire. Idempotent.
func (l *Lease) Stop() {
	l.mu.Lock()
	if l.err == nil {
		l.finishWith(ErrReleased)
	}
	l.finish()
	under := l.batch
	l.mu.Unlock()
	l.keeper.drop(l)
	if under != nil {
		<-under.done
	}
}

// Format writes the lock's name and the fencing token, whatever the verb.
func (l *Lease) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "lease on %q (fencing token %d)", l.grant.Name, l.grant.Fence)
}

// remaining returns how long the lease can be trusted from now; negative if it cannot.
// Like all that follows it is called with l.mu held.
func (l *Lease) remaining(now Instant) time.Duration {
	return l.grant.trusted() - now.Sub(l.sent)
}

// plan sets when the next renewal is due, up to a tenth early so that holders which began
// together do not stay together.
func (l *Lease) plan() {
	l.due = l.sent.mono.Add(l.every)
	if spread := l.every / 10; spread > 0 {
		l.due = l.due.Add(-rand.N(spread))
	}
}

// watch is what the lease's timer runs. The Keeper's Close waits for it.
func (l *Lease) watch() {
	now := l.keeper.Now()
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	l.keeper.wg.Add(1) // not over, so Close has not come to wait yet
	defer l.keeper.wg.Done()
	loss := l.judge(now)
	l.mu.Unlock()
	l.keeper.report(l, loss)
}

// judge ends what the clocks have ended, and sets the timer to what they will end next. It
// returns the loss, if it is the one that ended the lease.
func (l *Lease) judge(now Instant) (loss *LossError) {
	if l.over {
		return nil
	}
	left, notice := l.remaining(now), l.keeper.opt.Notice
	if left <= 0 {
		loss = l.end(ReasonDeadline)
		l.finish()
		return loss
	}
	if left <= notice {
		loss = l.end(ReasonFailing)
	}
	if l.err == nil {
		left -= notice
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.watch)
	} else {
		l.timer.Reset(left)
	}
	return loss
}

// settle takes the answer to a renewal that was sent at the given instant. Late tells that
// it was confirmed although the lease had been lost: that revives nothing.
func (l *Lease) settle(sent, now Instant, err error, panicked bool) (loss *LossError, late bool) {
	if !l.over && l.remaining(now) <= 0 {
		loss = l.judge(now) // before its timer did
	}
	if l.over {
		return loss, err == nil && !errors.Is(l.err, ErrReleased)
	}
	switch {
	case err == nil:
		l.fails, l.failure = 0, nil
		if sent.Sub(l.sent) > 0 { // answers can overtake one another
			l.sent = sent
		}
		l.plan()
		loss = l.judge(now)
	case errors.Is(err, ErrLost):
		l.refused = true
		loss = l.end(ReasonRefused)
		l.finish()
	default:
		l.fails++
		l.failure = err
		l.due = now.mono.Add(retryAfter(l.fails, l.grant.TTL))
		if panicked {
			loss = l.end(ReasonPanicked)
		} else if l.keeper.opt.FailFast {
			loss = l.end(ReasonFailing)
		}
	}
	if l.again {
		l.again, l.due = false, now.mono
	}
	return loss, false
}

// retryAfter is the wait after the nth failed renewal in a row: soon at first, since most
// faults are short, and never so long that a lease of this length has no time for more.
func retryAfter(n int, ttl time.Duration) time.Duration {
	wait := min(25*time.Millisecond<<min(n-1, 16), ttl/6)
	return wait - rand.N(wait/4+1)
}

// end ends the lease as lost, unless it has ended before.
func (l *Lease) end(reason Reason) *LossError {
	if l.err != nil {
		return nil
	}
	loss := &LossError{Name: l.grant.Name, Reason: reason, Err: l.failure}
	l.finishWith(loss)
	return loss
}

// finishWith tells everybody, once.
func (l *Lease) finishWith(err error) {
	l.err = err
	close(l.done)
	l.cancel(err)
}

// finish stops what renews and watches the lease.
func (l *Lease) finish() {
	l.over = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
