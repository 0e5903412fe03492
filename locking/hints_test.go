package locking

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// slowPoller is a Locker whose waiters would ask again in an hour: what they get before, they were
// told of.
func slowPoller(t testing.TB, c redis.UniversalClient) *Locker {
	t.Helper()
	return bubbled(t, c, Options{TTL: time.Hour, MaxBackoff: time.Hour})
}

// waiting starts an Acquire and returns where its lease arrives.
func waiting(t testing.TB, l *Locker, name string) <-chan *Lease {
	t.Helper()
	got := make(chan *Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), name)
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		got <- lease
	}()
	return got
}

func mustCome(t testing.TB, got <-chan *Lease) *Lease {
	t.Helper()
	select {
	case lease := <-got:
		return lease
	case <-time.After(20 * time.Second):
		t.Fatal("a waiter was not told of the release for 20 s")
		return nil
	}
}

func TestProperty12_AReleaseElsewhereIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		held := mustAcquire(t, slowPoller(t, c), "job")
		other := mustAcquire(t, slowPoller(t, c), "other")
		waiter := slowPoller(t, c)
		job, another := waiting(t, waiter, "job"), waiting(t, waiter, "other")
		time.Sleep(500 * time.Millisecond)
		mustRelease(t, other)
		mustRelease(t, mustCome(t, another))
		mustRelease(t, held)
		mustRelease(t, mustCome(t, job))
		// With the last waiter the connection goes too.
		eventually(t, 10*time.Second, "nobody listens", func() bool {
			waiter.hints.mu.Lock()
			defer waiter.hints.mu.Unlock()
			return !waiter.hints.listening
		})
	})
}

// The lock is released after the waiter asked, before it can be told.
func TestProperty12_AReleaseBeforeTheSubscription(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		held := mustAcquire(t, slowPoller(t, direct), "job")
		p.DelayRequests(1, redistest.Named("subscribe"), time.Second)
		got := waiting(t, slowPoller(t, p.Client()), "job")
		time.Sleep(300 * time.Millisecond)
		mustRelease(t, held)
		mustRelease(t, mustCome(t, got))
	})
}

// The connection that listens breaks, and the release falls into the time without one.
func TestProperty12_AReleaseWhileNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, direct := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		held := mustAcquire(t, slowPoller(t, direct), "job")
		got := waiting(t, slowPoller(t, p.Client()), "job")
		time.Sleep(time.Second)
		p.Cut()
		mustRelease(t, held)
		time.Sleep(5 * time.Second)
		p.Heal()
		mustRelease(t, mustCome(t, got))
	})
}

// One who may not subscribe or publish asks as often as its backoff says.
func TestProperty12_WithoutTheRightToBeTold(t *testing.T) {
	s := redistest.Server(t)
	s.Do("ACL", "SETUSER", "mute", "on", ">secret", "~rota:lock:*", "resetchannels", "+@all")
	opt := *s.Client().Options()
	opt.Username, opt.Password = "mute", "secret"
	c := redis.NewClient(&opt)
	t.Cleanup(func() { _ = c.Close() })
	held := mustAcquire(t, newLocker(t, c, Options{}), "job")
	got := waiting(t, newLocker(t, c, Options{MaxBackoff: 100 * time.Millisecond}), "job")
	time.Sleep(300 * time.Millisecond)
	mustRelease(t, held)
	mustRelease(t, mustCome(t, got))
}

// The note that somebody waits changes nothing of the lease that it is on.
func TestProperty12_TheNoteIsOnlyANote(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		holder := newLocker(t, c, Options{TTL: 10 * time.Second, Holder: "one", Boottime: stopped})
		for _, wanted := range []bool{true, false} { // nothing of the note is left on the next lease
			held := mustAcquire(t, holder, "job")
			if wanted {
				for range 2 {
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					if _, err := slowPoller(t, c).Acquire(ctx, "job"); !errors.Is(err, ErrHeld) {
						t.Errorf("Acquire: got %v, want ErrHeld", err)
					}
					cancel()
				}
			}
			value := fmt.Sprint(do(t, c, "GET", "rota:lock:{job}"))
			if got := strings.Count(value, "\n"); got != map[bool]int{true: 1}[wanted] {
				t.Errorf("somebody waits %t: got %d notes in %q", wanted, got, value)
			}
			between(t, "in Redis", left(t, c), 9*time.Second, 10*time.Second)
			if s, err := holder.Query(t.Context(), "job"); err != nil || s.Holder != "one" || s.FencingToken != held.FencingToken() {
				t.Errorf("Query: got %+v, %v, want it held by one", s, err)
			}
			if err := held.Renew(t.Context(), 20*time.Second); err != nil {
				t.Errorf("Renew: %v", err)
			}
			between(t, "in Redis", left(t, c), 19*time.Second, 20*time.Second)
			mustRelease(t, held)
		}
	})
}

// A lock changes hands often among fifty processes that wait for it. Each change is told to all, and
// they must not all ask each time.
func TestProperty12_ToldWaitersAskInBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		client := p.Client()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var lockers []*Locker
		var wg sync.WaitGroup
		held := mustAcquire(t, bubbled(t, c, Options{TTL: time.Minute}), "job")
		for range 50 {
			l := bubbled(t, client, Options{TTL: time.Minute, MinBackoff: 100 * time.Millisecond})
			lockers = append(lockers, l)
			wg.Go(func() { _, _ = l.Acquire(ctx, "job") })
		}
		var told atomic.Int64
		wg.Go(func() { // as releases would, a hundred times a second
			for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				do(t, c, "PUBLISH", "rota:lock:{job}:freed", "") //nolint:contextcheck // its own: it must not fail at the end
				told.Add(1)
			}
		})
		wg.Wait()
		// Ten a second each, for five seconds.
		if n := acquires(p, lockers[0]); n < 50 || n > 50*51+100 {
			t.Errorf("50 waiters asked %d times in 5 s in which they were told %d times, want 2500 at most, and some", n, told.Load())
		}
		mustRelease(t, held)
	})
}
