package locking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime/debug"
	"slices"
	"time"
)

// errNoAnswer stands for a missing error of Renew, which must return one for each grant.
var errNoAnswer = errors.New("locking: renew returned no answer")

// A call that hangs must not keep other leases from being renewed. So a lease is in one call
// at a time, a call takes what is due when it starts, and what becomes due later goes in
// another beside it.

// batch is one call of Renew under way.
type batch struct {
	leases []*Lease
	done   chan struct{} // closed when the call has returned and its leases know
}

// plan sends renewals when they are due. It alone compares the clocks.
func (k *Keeper) plan() {
	timer := time.NewTimer(clockCheck)
	defer timer.Stop()
	var last Instant // zero after it was asleep: what the clocks did then is no matter
	for {
		now := k.Now()
		if !last.IsZero() {
			k.compare(now, last)
		}
		wait, asleep := k.sendDue(now)
		if last = now; asleep {
			last = Instant{}
		}
		timer.Reset(wait)
		select {
		case <-k.wake:
		case <-timer.C:
		case <-k.ctx.Done():
			return
		}
	}
}

// compare looks for time that passed unseen. After a sleep the timers of the leases are late
// by as much, so each is judged here; and whenever more time may have passed than the
// clocks of the timers saw, every lease is renewed before anything else goes on.
func (k *Keeper) compare(now, last Instant) {
	slept, jumped := now.slept(last) > clockCheck, now.WallAhead(last) > clockJump
	if !slept && !jumped {
		return
	}
	k.renewAll(now)
	k.mu.Lock()
	leases := make([]*Lease, 0, len(k.leases))
	for l := range k.leases {
		leases = append(leases, l)
	}
	k.mu.Unlock()
	for _, l := range leases {
		l.watch()
	}
}

// sendDue starts a call for the leases that are due, and tells when to look again, or that
// only Keep shall wake the planner, because since it looked last there was no lease. Leases
// that are nearly due go along with those that are, so that they share their calls from then
// on.
func (k *Keeper) sendDue(now Instant) (wait time.Duration, asleep bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait = clockCheck
	var due, nearly []*Lease
	for l := range k.leases {
		l.mu.Lock()
		left := l.due.Sub(now.mono)
		switch {
		case l.over:
			delete(k.leases, l)
		case l.batch != nil: // the end of the call wakes the planner
		case left <= 0:
			due = append(due, l)
		default:
			wait = min(wait, left)
			if l.fails == 0 && left <= l.every/8 {
				nearly = append(nearly, l)
			}
		}
		l.mu.Unlock()
	}
	// Locks that are taken and given back in no time do not wake it each time.
	if k.asleep = len(k.leases) == 0 && !k.used; k.asleep {
		wait = time.Hour
	}
	k.used = false
	if len(due) > 0 && k.inFlight < maxInFlight {
		k.send(append(due, nearly...))
	}
	return wait, k.asleep
}

// send starts calls for leases, the shortest first. Leases of about the same length share a
// call, because its timeout is that of the shortest in it. Called with k.mu held.
func (k *Keeper) send(leases []*Lease) {
	sizes := make(map[*Lease]int, len(leases))
	dues := make(map[*Lease]time.Time, len(leases))
	for _, l := range leases {
		l.mu.Lock()
		sizes[l], dues[l] = bits.Len64(uint64(l.ttl)), l.due
		l.mu.Unlock()
	}
	slices.SortFunc(leases, func(a, b *Lease) int {
		return cmp.Or(cmp.Compare(sizes[a], sizes[b]), dues[a].Compare(dues[b]))
	})
	for len(leases) > 0 && k.inFlight < maxInFlight {
		n := 1
		for n < len(leases) && n < maxBatch && sizes[leases[n]] == sizes[leases[0]] {
			n++
		}
		b := &batch{leases: slices.Clone(leases[:n]), done: make(chan struct{})}
		leases = leases[n:]
		for _, l := range b.leases {
			l.mu.Lock()
			l.batch = b
			l.mu.Unlock()
		}
		k.inFlight++
		k.wg.Go(func() { k.renew(b) })
	}
}

// renew makes one call and tells its leases.
func (k *Keeper) renew(b *batch) {
	var (
		grants []Grant
		asked  []*Lease
		errs   []error
		panics error
	)
	// What is left of the lease that ends last bounds the call, not what is left of the first:
	// one that is nearly over would take the others' time. A quarter of the TTL does, so that
	// at least three calls fit between the first renewal and the deadline.
	timeout, left := k.opt.CallTimeout, time.Duration(0)
	sent := k.Now()
	for _, l := range b.leases {
		l.mu.Lock()
		if !l.over { // else it was stopped since the planner looked
			g := *l.grant
			g.TTL = l.ttl
			asked, grants = append(asked, l), append(grants, g)
			timeout = min(timeout, l.ttl/4)
			left = max(left, l.remaining(sent))
		} else {
			l.batch = nil
		}
		l.mu.Unlock()
	}
	// Deferred, so that leases learn of a Renew that panics or ends its goroutine.
	defer func() {
		if r := recover(); r != nil {
			panics = fmt.Errorf("locking: renew panicked: %v", r)
			k.log.Error("renewal panicked", "err", panics, "stack", string(debug.Stack()))
		}
		k.settle(asked, sent, errs, panics)
		k.mu.Lock()
		k.inFlight--
		k.mu.Unlock()
		close(b.done)
		k.poke()
	}()
	if len(asked) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, min(timeout, max(left, 0)))
	defer cancel()
	errs = k.opt.Renew(ctx, grants)
}

// settle tells the leases of a call how it went.
func (k *Keeper) settle(asked []*Lease, sent Instant, errs []error, panics error) {
	now := k.Now()
	for i, l := range asked {
		err := errNoAnswer
		if panics != nil {
			err = panics
		} else if i < len(errs) {
			err = errs[i]
		}
		l.mu.Lock()
		l.batch = nil
		loss, late := l.settle(sent, now, err, panics != nil)
		first := l.fails == 1 && !l.over
		l.mu.Unlock()
		k.settled(l, err, loss, late, first)
	}
}

// settled tells who is to know how a renewal ended. Late and first are as [Lease.settle] has it, and
// whether it is the first in a row that failed.
func (k *Keeper) settled(l *Lease, err error, loss *LossError, late, first bool) {
	switch {
	case loss != nil, late:
	case err == nil:
		k.observe(l, EventRenewed, nil)
	default:
		k.observe(l, EventRetried, err)
	}
	if err != nil && loss == nil && first {
		k.log.Warn("renewal failed", "lock", l.grant.Name, "token", l.grant.Fence, "err", err)
	}
	k.report(l, loss)
	if late && k.late != nil {
		k.late(*l.grant)
	}
}
