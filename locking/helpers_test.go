package locking

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// stopped is a CLOCK_BOOTTIME for bubbles, in which only the bubble's clock runs.
func stopped() time.Duration { return 0 }

// newLocker returns a Locker that is closed with the test.
func newLocker(t testing.TB, c redis.UniversalClient, opt Options) *Locker {
	t.Helper()
	l, err := New(c, opt)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

// bubbled is newLocker for a bubble.
func bubbled(t testing.TB, c redis.UniversalClient, opt Options) *Locker {
	t.Helper()
	opt.Boottime = stopped
	return newLocker(t, c, opt)
}

// onBoth runs a test on a real redis-server and on the in-process one, in a bubble.
func onBoth(t *testing.T, run func(t *testing.T, c *redis.Client)) {
	t.Helper()
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel() // with the others of its test: they mostly wait
		run(t, redistest.Server(t).Client())
	})
	t.Run("in a bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, c := redistest.InBubble(t)
			run(t, c)
		})
	})
}

// onBothFaulty is onBoth with a proxy that makes faults. Direct goes around it.
func onBothFaulty(t *testing.T, run func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client)) {
	t.Helper()
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		s := redistest.Server(t)
		run(t, redistest.Proxy(t, s.Addr()), s.Client())
	})
	t.Run("in a bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, c := redistest.InBubble(t)
			run(t, redistest.PipeProxy(t, m.Dial), c)
		})
	})
}

func mustAcquire(t testing.TB, l *Locker, name string) *Lease {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), name)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", name, err)
	}
	return lease
}

func mustRelease(t testing.TB, lease *Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release of %v: %v", lease, err)
	}
}

// do sends one command and returns the answer; nil for none.
func do(t testing.TB, c *redis.Client, args ...any) any {
	t.Helper()
	v, err := c.Do(context.WithoutCancel(t.Context()), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// lostBy waits until the lease is lost, and checks how.
func lostBy(t testing.TB, lease *Lease, reason Reason, within time.Duration) {
	t.Helper()
	start := time.Now()
	if within > 0 {
		select {
		case <-lease.Context().Done():
		case <-time.After(within):
		}
	}
	if lease.Context().Err() == nil {
		t.Fatalf("%v: its context has not ended %s later", lease, within)
	}
	loss, ok := errors.AsType[*LossError](context.Cause(lease.Context()))
	if !ok || loss.Reason != reason {
		t.Fatalf("%v ended after %s: got cause %v, want reason %q", lease, time.Since(start), context.Cause(lease.Context()), reason)
	}
	if !errors.Is(loss, ErrLost) || !errors.Is(lease.Err(), ErrLost) {
		t.Fatalf("%v: got cause %v and Err %v, want both to match ErrLost", lease, loss, lease.Err())
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for start := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(start) > within {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}
