package locking

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Acquire takes the lock name, and waits for it as long as ctx lasts. Of the callers that wait
// for one name in this Locker only one asks Redis, and they are served in the order in which
// they came; each gets a lease, an ownership token and a fencing token of its own.
//
// It asks again at once when Redis tells that the lock was released, which takes the right to
// subscribe and to publish; and without being told when the holder's lease would end, with some
// jitter, and at least every Options.MaxBackoff. It never asks faster than Options.MinBackoff, but
// after a release by this Locker. A Redis that does not answer is waited for as well.
//
// The errors are those of [Locker.TryAcquire] but for [ErrHeld] and [ErrUnavailable], which are
// waited out: when ctx ends first, the error is its cause, with the last of those joined to it.
// A caller that leaves leaves nothing behind, but on the lease that it waited for the note that
// somebody does.
func (l *Locker) Acquire(ctx context.Context, name string) (*Lease, error) {
	keys, err := l.names.keys(name)
	if err != nil {
		return nil, err
	}
	q := l.queues.join(name)
	defer func() {
		if l.queues.leave(name, q) {
			l.hints.unwant(keys.freed(), q)
		}
	}()
	select {
	case <-q.turn:
		defer func() { q.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, &waitError{name: name, err: ended(ctx)}
	case <-l.closing.Done():
		return nil, &waitError{name: name, err: ErrClosed}
	}
	var last error
	stop := func(why error) (*Lease, error) { return nil, &waitError{name: name, err: why, last: last} }
	for fails := 0; ; {
		lease, err := l.tryAcquire(ctx, context.WithoutCancel(ctx), name, true)
		held, isHeld := errors.AsType[*HeldError](err)
		var wait time.Duration
		switch {
		case err == nil:
			return lease, nil
		case ctx.Err() != nil:
			return stop(ended(ctx))
		case l.closing.Err() != nil:
			return stop(ErrClosed)
		case isHeld:
			fails, wait = 0, l.opt.backoff(held.Remaining)
			l.hints.want(keys.freed(), q)
		case errors.Is(err, ErrUnavailable):
			fails++
			wait = l.opt.backoff(l.opt.MinBackoff << min(fails, 16))
		default:
			return nil, err
		}
		last = err
		if err := l.pause(ctx, q, wait); err != nil {
			return stop(err)
		}
	}
}

// pause waits before the next attempt, or until the lock may be free. The error says why there will
// be none.
func (l *Locker) pause(ctx context.Context, q *queue, wait time.Duration) error {
	began := time.Now()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	told := q.told
	for {
		select {
		case <-timer.C:
			return nil
		case <-q.freed:
			return nil
		case <-told:
			// Whoever waits in other processes was told as well, and only one gets the lock: the
			// others must not ask as often as it changes hands.
			told = nil
			timer.Reset(max(0, l.opt.MinBackoff-time.Since(began)))
		case <-ctx.Done():
			return ended(ctx)
		case <-l.closing.Done():
			return ErrClosed
		}
	}
}

// backoff is the wait before the next attempt, when the lock may be free in `left`. The jitter
// is a tenth, so that hosts that wait for one holder do not all ask in the same moment: later
// than the lock may be free, but where it would be longer than MaxBackoff, as it is while a
// holder renews, earlier than that.
func (o *Options) backoff(left time.Duration) time.Duration {
	wait := min(max(left, o.MinBackoff), o.MaxBackoff)
	jitter := rand.N(wait/10 + 1)
	if wait <= o.MaxBackoff-jitter {
		return wait + jitter
	}
	return max(o.MinBackoff, wait-jitter)
}

// waitError says that the wait for a lock ended without it.
type waitError struct {
	name string
	err  error // why the wait ended
	last error // what the last attempt got; nil if it was nobody's turn
}

func (e *waitError) Error() string {
	if e.last == nil {
		return "acquire \"" + e.name + "\": " + e.err.Error()
	}
	return "acquire \"" + e.name + "\": " + e.err.Error() + "; last: " + e.last.Error()
}

// Unwrap gives why the wait ended and what the last attempt got.
func (e *waitError) Unwrap() []error {
	if e.last == nil {
		return []error{e.err}
	}
	return []error{e.err, e.last}
}

// queues lets one caller a name ask Redis, in the order of their coming.
type queues struct {
	mu     sync.Mutex
	byName map[string]*queue
}

// queue is the callers that wait for one name. A channel serves its receivers in order.
type queue struct {
	turn    chan struct{} // holds one token: who has it asks
	freed   chan struct{} // a lease of this Locker was released
	told    chan struct{} // Redis told that the lock may be free
	callers int           // guarded by queues.mu
}

func (s *queues) join(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byName[name]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1), freed: make(chan struct{}, 1), told: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		if s.byName == nil {
			s.byName = map[string]*queue{}
		}
		s.byName[name] = q
	}
	q.callers++
	return q
}

// leave tells whether nobody waits for the name any more.
func (s *queues) leave(name string, q *queue) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.callers--; q.callers > 0 {
		return false
	}
	delete(s.byName, name)
	return true
}

// released wakes whoever waits for the name, after a release by this Locker.
func (s *queues) released(name string) {
	s.mu.Lock()
	q := s.byName[name]
	s.mu.Unlock()
	if q != nil {
		signal(q.freed)
	}
}

// signal leaves one token in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}
