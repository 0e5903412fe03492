package locking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// acquires counts the acquire scripts that went through a proxy.
func acquires(p *redistest.FaultProxy, l *Locker) int {
	return p.Count(redistest.Evalsha(l.acquire.SHA()))
}

func TestProperty12_WaiterWakesWhenTheLeaseEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		holder := bubbled(t, c, Options{TTL: 400 * time.Millisecond, Holder: "dead"})
		lease := mustAcquire(t, holder, "job")
		lease.Stop() // as if its process had died
		waiter := bubbled(t, c, Options{TTL: time.Second})
		begun := time.Now()
		got, err := waiter.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		if waited := time.Since(begun); waited < 300*time.Millisecond || waited > 900*time.Millisecond {
			t.Errorf("Acquire waited %s for a lease of 400 ms", waited)
		}
		if got.FencingToken() <= lease.FencingToken() {
			t.Errorf("token %d is not above %d", got.FencingToken(), lease.FencingToken())
		}
		mustRelease(t, got)
	})
}

// However many wait, in one process they ask no more often than one; and one does not ask more
// often than its backoff says, whatever the time left is.
func TestProperty12_AttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		mustAcquire(t, bubbled(t, c, Options{TTL: time.Minute}), "job")
		waiter := bubbled(t, p.Client(), Options{TTL: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := waiter.Acquire(ctx, "job"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Acquire = %v, want the end of its context", err)
				}
			})
		}
		wg.Wait()
		if n := acquires(p, waiter); n < 4 || n > 7 {
			t.Errorf("50 waiters asked %d times in 5 s, want about once a second together", n)
		}
	})
	o := Options{MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second}
	for _, left := range []time.Duration{-2, -1, 0, 1, 30 * time.Millisecond, time.Second, time.Hour} {
		for range 100 {
			if d := o.backoff(left); d < o.MinBackoff || d > o.MaxBackoff {
				t.Fatalf("backoff(%s) = %s, want within %s and %s", left, d, o.MinBackoff, o.MaxBackoff)
			}
		}
	}
}

// Whoever waits for one holder began together, when the lock was taken or Redis came back. They
// must not ask together for as long as they wait.
func TestProperty12_WaitersDoNotAskInStep(t *testing.T) {
	o := Options{MinBackoff: 20 * time.Millisecond, MaxBackoff: time.Second}
	for _, c := range []struct{ left, from, to time.Duration }{
		{time.Hour, 900 * time.Millisecond, time.Second},
		{time.Second, 900 * time.Millisecond, time.Second},
		{500 * time.Millisecond, 500 * time.Millisecond, 550 * time.Millisecond}, // not before it may be free
		{0, 20 * time.Millisecond, 22 * time.Millisecond},
	} {
		shortest, longest := time.Hour, time.Duration(0)
		for range 1000 {
			d := o.backoff(c.left)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if shortest < c.from || longest > c.to || longest-shortest < (c.to-c.from)*9/10 {
			t.Errorf("backoff(%s): got %s to %s in 1000, want all of %s to %s", c.left, shortest, longest, c.from, c.to)
		}
	}
}

// A hundred goroutines on one name: one request at a time, a lease for each, in their order.
func TestProperty14_OnePollerAName(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, _ *redis.Client) {
		l := bubbled(t, p.Client(), Options{TTL: 30 * time.Second})
		first := mustAcquire(t, l, "job")
		before := acquires(p, l)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var tokens []int64
		for range 100 {
			wg.Go(func() {
				lease, err := l.Acquire(t.Context(), "job")
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				mu.Lock()
				tokens = append(tokens, lease.FencingToken())
				mu.Unlock()
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		mustRelease(t, first)
		wg.Wait()
		last := first.FencingToken()
		for _, token := range tokens {
			if token <= last {
				t.Errorf("token %d came after %d", token, last)
			}
			last = token
		}
		if len(tokens) != 100 {
			t.Errorf("%d of 100 were served", len(tokens))
		}
		// One attempt each, a few that came a moment too early, a few while the first was held.
		if n := acquires(p, l) - before; n > 250 {
			t.Errorf("100 acquisitions took %d requests, want about one each", n)
		}
	})
}

// Redis is away for a while: the waiter waits it out.
func TestAcquire_WaitsForRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{TTL: 10 * time.Second})
		p.Cut()
		go func() {
			time.Sleep(10 * time.Second)
			p.Heal()
		}()
		lease, err := l.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatalf("Acquire over an absence of 10 s: %v", err)
		}
		mustRelease(t, lease)
	})
}

// A waiter that leaves leaves nothing behind, neither in Redis nor in the queue.
func TestAcquire_CancelledLeavesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := bubbled(t, c, Options{TTL: 10 * time.Second})
		held := mustAcquire(t, l, "job")
		boss := errors.New("changed my mind")
		for _, waiters := range []int{1, 3} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					if _, err := l.Acquire(ctx, "job"); !errors.Is(err, boss) {
						t.Errorf("Acquire = %v, want the cause of its context", err)
					}
				})
			}
			time.Sleep(50 * time.Millisecond)
			cancel(boss)
			wg.Wait()
		}
		if n := len(l.queues.byName); n != 0 {
			t.Errorf("%d queues are left", n)
		}
		mustRelease(t, held)
		if n := do(t, c, "EXISTS", "rota:lock:{job}"); fmt.Sprint(n) != "0" {
			t.Errorf("EXISTS = %v after everybody left", n)
		}
	})
}

func TestAcquire_Refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{})
		if _, err := l.Acquire(t.Context(), "a{b"); !errors.Is(err, ErrInvalidName) {
			t.Errorf("Acquire of a bad name = %v, want ErrInvalidName", err)
		}
		do(t, c, "SET", "rota:lock:{spoilt}", "somebody")
		if _, err := l.Acquire(t.Context(), "spoilt"); !errors.Is(err, ErrConflict) {
			t.Errorf("Acquire of a spoilt lock = %v, want ErrConflict, at once", err)
		}
		held := mustAcquire(t, l, "job")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "job")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrHeld) {
			t.Errorf("Acquire = %v, want both why it ended and who held the lock", err)
		}
		go func() {
			time.Sleep(time.Second)
			_ = l.Close()
		}()
		if _, err := l.Acquire(t.Context(), "job"); !errors.Is(err, ErrClosed) {
			t.Errorf("Acquire while the Locker is closed = %v, want ErrClosed", err)
		}
		_ = held
	})
}
