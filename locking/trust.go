package locking

import (
	"errors"
	"math/rand/v2"
	"time"
)

// How a lease is judged. Three things change what is known of it: the clocks (judge), the
// answer to a renewal (settle), and its holder (Stop). Each of them holds l.mu, and so do
// the functions here that say nothing else. Whatever ends the lease does so once: the first
// reason stays.

// trusted returns how long after its newest confirmed request the lease may be trusted.
func (l *Lease) trusted() time.Duration {
	g := *l.grant
	g.TTL = l.ttl
	return g.trusted()
}

// resize gives the lease another length.
func (l *Lease) resize(ttl time.Duration) {
	l.ttl = min(ttl, l.most)
	l.every = renewEvery(l.trusted())
	if every := l.keeper.opt.RenewEvery; every > 0 {
		l.every = min(l.every, every)
	}
}

// remaining returns how long the lease can be trusted from now; negative if it cannot.
func (l *Lease) remaining(now Instant) time.Duration {
	return l.trusted() - now.Sub(l.sent)
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
	if !l.ended() {
		left -= notice // the holder is told first
	}
	if bound := l.grant.MaxHold; bound > 0 {
		rest := bound - now.Sub(l.grant.Sent)
		if rest <= 0 {
			loss = l.end(ReasonMaxHold)
			l.finish()
			return loss
		}
		left = min(left, rest)
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.watch)
	} else {
		l.timer.Reset(left)
	}
	return loss
}

// settle takes the answer to a renewal that was sent at the given instant. Late tells that it
// was confirmed when nobody trusted the lease any more: that revives nothing, and what it
// prolonged is in the way of others.
func (l *Lease) settle(sent, now Instant, err error, panicked bool) (loss *LossError, late bool) {
	if !l.over && l.remaining(now) <= 0 {
		loss = l.judge(now) // before its timer did
	}
	if l.over {
		// After MaxHold, Close or Stop the holder winds up under what is left of the lease. A
		// confirmed renewal changes nothing of that; a refused one ends it.
		l.refused = l.refused || errors.Is(err, ErrLost)
		return loss, err == nil && l.remaining(now) <= 0 && !errors.Is(l.err, ErrReleased)
	}
	switch {
	case err == nil:
		// Counted from its own send: when Redis handled it is not known, only that it was
		// later. Answers can overtake one another, and the deadline never moves back.
		l.fails, l.failure = 0, nil
		if sent.Sub(l.sent) > 0 {
			l.sent = sent
		}
		l.plan()
		loss = l.judge(now)
	case errors.Is(err, ErrLost):
		// The one answer that needs no second: whoever holds the lock now, we do not.
		l.refused = true
		loss = l.end(ReasonRefused)
		l.finish()
	default:
		// Not a loss: what is not known to be renewed is trusted as far as it was before. Also
		// after a panic, or when the holder was told, it is tried on, for the lock must not pass
		// to another while the holder winds up.
		l.fails++
		l.failure = err
		l.due = now.mono.Add(retryAfter(l.fails, l.ttl))
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
	if l.ended() {
		return nil
	}
	loss := &LossError{Name: l.grant.Name, Reason: reason, Err: l.failure}
	if reason == ReasonClosed {
		loss.Err = ErrClosed
	} else if reason == ReasonMaxHold {
		loss.Err = ErrMaxHold
	}
	l.finishWith(loss)
	return loss
}

// ended tells that everybody has been told.
func (l *Lease) ended() bool { return l.err != nil }

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
