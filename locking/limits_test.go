package locking

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestProperty29_MaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := redistest.InBubble(t)
		l := bubbled(t, c, Options{TTL: 3 * time.Second, MaxHold: 10 * time.Second})
		lease := mustAcquire(t, l, "job")
		begun := time.Now()
		<-lease.Done()
		if held := time.Since(begun); held < 9900*time.Millisecond || held > 10*time.Second {
			t.Errorf("the lease ended after %s, want its MaxHold of 10 s", held)
		}
		if err := lease.Err(); !errors.Is(err, ErrMaxHold) || !errors.Is(err, ErrLost) {
			t.Errorf("Err = %v, want ErrMaxHold, which is a loss", err)
		}
		left := lease.Remaining()
		if left < time.Second || !lease.Valid() {
			t.Errorf("%s are left to wind up, want what the last renewal left", left)
		}
		time.Sleep(3 * time.Second)
		if _, err := l.TryAcquire(t.Context(), "job"); err != nil {
			t.Errorf("TryAcquire 3 s later = %v: the lease was renewed beyond MaxHold", err)
		}
	})
}

// A lease that ends while a renewal is on its way is trusted for what was left of it, by a holder
// that winds up: the answer, however good, gives its lock to nobody.
func TestProperty29_AnAnswerAfterTheEndFreesNothingThatIsTrusted(t *testing.T) {
	for _, c := range []struct {
		name   string
		opt    Options
		end    func(t *testing.T, l *Locker, lease *Lease)
		reason Reason
	}{
		{"MaxHold", Options{TTL: 3 * time.Second, MaxHold: 10 * time.Second}, func(*testing.T, *Locker, *Lease) {}, ReasonMaxHold},
		{"Close", Options{TTL: 3 * time.Second}, func(t *testing.T, l *Locker, _ *Lease) {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}, ReasonClosed},
		{"Stop", Options{TTL: 3 * time.Second, MaxHold: 10 * time.Second}, func(_ *testing.T, _ *Locker, lease *Lease) { lease.Stop() }, ReasonMaxHold},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, direct := redistest.InBubble(t)
				p := redistest.PipeProxy(t, m.Dial)
				l, other := bubbled(t, p.Client(), c.opt), bubbled(t, direct, Options{})
				lease := mustAcquire(t, l, "job")
				time.Sleep(9900 * time.Millisecond)
				before := p.Count(renewals(l))
				p.DelayReplies(1, renewals(l), 500*time.Millisecond)
				l.keeper.RenewNow()
				time.Sleep(200 * time.Millisecond) // past MaxHold
				c.end(t, l, lease)
				time.Sleep(400 * time.Millisecond)
				lostBy(t, lease, c.reason, 0)
				if n := p.Count(renewals(l)) - before; n != 1 {
					t.Fatalf("%d renewals around the end, want the one that was under way: the test shows nothing", n)
				}
				left := lease.Remaining()
				if left < time.Second {
					t.Errorf("%s are left to wind up, want what the renewal before left", left)
				}
				if _, err := other.TryAcquire(t.Context(), "job"); !errors.Is(err, ErrHeld) {
					t.Errorf("TryAcquire = %v while the lease is trusted for another %s, want ErrHeld", err, left)
				}
			})
		})
	}
}

// The other answer counts: whoever winds up learns that the lock is not his any more.
func TestProperty29_ARefusalAfterTheEndIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{TTL: 3 * time.Second, MaxHold: 10 * time.Second})
		lease := mustAcquire(t, l, "job")
		time.Sleep(9900 * time.Millisecond)
		do(t, c, "DEL", "rota:lock:{job}")
		p.DelayReplies(1, renewals(l), 500*time.Millisecond)
		l.keeper.RenewNow()
		time.Sleep(300 * time.Millisecond)
		if !lease.Valid() {
			t.Fatal("the lease is not trusted before the answer: the test shows nothing")
		}
		time.Sleep(300 * time.Millisecond)
		lostBy(t, lease, ReasonMaxHold, 0)
		if lease.Valid() || lease.Remaining() != 0 {
			t.Errorf("after Redis said that it is not ours: got valid %t with %s left, want neither", lease.Valid(), lease.Remaining())
		}
	})
}

// A holder that was told ahead is still held to MaxHold, not to that and the notice besides.
func TestKeeper_MaxHoldOfALeaseThatIsFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		k := newKeeper(t, KeeperOptions{
			FailFast: true, Notice: 5 * time.Second, RenewEvery: time.Second,
			Renew: func(_ context.Context, grants []Grant) []error {
				if calls.Add(1) == 1 {
					return all(grants, ErrUnavailable)
				}
				return make([]error, len(grants))
			},
		})
		g := grantOf(k.Now(), 30*time.Second)
		g.MaxHold = 10 * time.Second
		lease := k.Keep(t.Context(), g)
		lostBy(t, lease, ReasonFailing, 2*time.Second)
		time.Sleep(9 * time.Second)
		before := calls.Load()
		time.Sleep(4 * time.Second)
		if n := calls.Load() - before; n > 0 {
			t.Errorf("%d renewals after MaxHold, want none", n)
		}
	})
}

// Two schedulers 200 ms apart, and a job of 10 ms: with MinHold it runs once.
func TestProperty34_MinHold(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		runs := 0
		for i := range 2 {
			l := bubbled(t, c, Options{TTL: 5 * time.Second, MinHold: 600 * time.Millisecond})
			if i > 0 {
				time.Sleep(200 * time.Millisecond)
			}
			lease, err := l.TryAcquire(t.Context(), "job")
			if errors.Is(err, ErrHeld) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			runs++
			time.Sleep(10 * time.Millisecond)
			mustRelease(t, lease)
			mustRelease(t, lease) // again: it changes nothing
		}
		if runs != 1 {
			t.Errorf("the job ran %d times, want once", runs)
		}
		time.Sleep(600 * time.Millisecond)
		l := bubbled(t, c, Options{TTL: 5 * time.Second})
		lease, err := l.TryAcquire(t.Context(), "job")
		if err != nil {
			t.Fatalf("TryAcquire after MinHold = %v, want it free", err)
		}
		mustRelease(t, lease)
	})
}

func TestOptions_Limits(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = c.Close() }()
	for _, opt := range []Options{
		{MaxHold: -1},
		{MinHold: -1},
		{TTL: time.Second, MinHold: 2 * time.Second},
		{MinBackoff: -1},
		{MinBackoff: time.Second, MaxBackoff: time.Millisecond},
	} {
		if l, err := New(c, opt); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("New(%+v) = %v, %v; want ErrInvalidOptions", opt, l, err)
		}
	}
}

// A loss is told exactly once, through the context, Done, Err and the observer; a lease that is
// released is never lost.
func TestProperty26_ObserverHearsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		var mu sync.Mutex
		seen := map[string][]EventKind{}
		l := bubbled(t, c, Options{TTL: 3 * time.Second, Observe: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Name] = append(seen[e.Name], e.Kind)
			if e.Kind == EventLost && !errors.Is(e.Err, ErrLost) {
				t.Errorf("a loss comes with %v", e.Err)
			}
		}})
		lost, kept := mustAcquire(t, l, "lost"), mustAcquire(t, l, "kept")
		time.Sleep(2500 * time.Millisecond)
		m.Del("rota:lock:{lost}")
		time.Sleep(5 * time.Second)
		mustRelease(t, kept)
		if err := lost.Release(t.Context()); !errors.Is(err, ErrLost) {
			t.Errorf("Release of the lost lease = %v, want ErrLost", err)
		}
		mu.Lock()
		defer mu.Unlock()
		count := func(name string, kind EventKind) (n int) {
			for _, k := range seen[name] {
				if k == kind {
					n++
				}
			}
			return n
		}
		for _, want := range []struct {
			name string
			kind EventKind
			n    int
		}{
			{"lost", EventAcquired, 1},
			{"lost", EventLost, 1},
			{"lost", EventReleased, 0},
			{"kept", EventAcquired, 1},
			{"kept", EventLost, 0},
			{"kept", EventReleased, 1},
		} {
			if n := count(want.name, want.kind); n != want.n {
				t.Errorf("%s was %s %d times, want %d (%v)", want.name, want.kind, n, want.n, seen[want.name])
			}
		}
		if n := count("kept", EventRenewed); n < 6 {
			t.Errorf("kept was renewed %d times in 7.5 s, want once a second or so", n)
		}
	})
}
