package locking

import (
	"errors"
	"sync"
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
