package locking

import (
	"context"
	"errors"
	"fmt"
	"math"
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

	mu      sync.Mutex    // guards what follows; taken after the Keeper's
	ttl     time.Duration // the grant's, until Renew gives it another
	most    time.Duration // the least length that Redis was asked for and did not answer
	every   time.Duration // between renewals
	sent    Instant       // of the newest confirmed request
	err     error         // why the lease ended, set once
	over    bool          // nothing will be renewed any more
	refused bool          // Redis said that it is not ours
	due     time.Time     // of the next renewal
	again   bool          // renew again once the call under way is back
	fails   int           // renewals that failed since the last good one
	failure error         // of the last of these
	batch   *batch        // the call under way
	timer   *time.Timer
}

func newLease(ctx context.Context, k *Keeper, g Grant) *Lease {
	room := &struct { // one allocation for both
		lease Lease
		grant Grant
	}{grant: g}
	l := &room.lease
	l.keeper, l.grant, l.done, l.sent, l.most = k, &room.grant, make(chan struct{}), g.Sent, math.MaxInt64
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.resize(g.TTL)
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
	deadline := l.sent.mono.Add(l.trusted())
	// Below a millisecond it is not sleep but two clocks read one after the other.
	if slept := now.slept(l.sent); slept > time.Millisecond {
		deadline = deadline.Add(-slept)
	}
	return deadline
}

// TrustedUntil returns the trust deadline as an [Instant], for those who judge by another clock than
// Go's. Like Deadline it moves with each renewal that is confirmed, and never back.
func (l *Lease) TrustedUntil() Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent.Add(l.trusted())
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
	first := !l.ended()
	if first {
		l.finishWith(ErrReleased)
	}
	l.finish()
	under := l.batch
	l.mu.Unlock()
	l.keeper.drop(l)
	if under != nil {
		<-under.done
	}
	if first {
		l.keeper.observe(l, EventReleased, nil)
	}
}

// Format writes the lock's name and the fencing token, whatever the verb.
func (l *Lease) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "lease on %q (fencing token %d)", l.grant.Name, l.grant.Fence)
}
