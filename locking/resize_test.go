package locking

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// left is what Redis says of a lock's life.
func left(t testing.TB, c *redis.Client) time.Duration {
	t.Helper()
	ms, _ := do(t, c, "PTTL", "rota:lock:{job}").(int64)
	return time.Duration(ms) * time.Millisecond
}

func between(t testing.TB, what string, got, from, to time.Duration) {
	t.Helper()
	if got < from || got > to {
		t.Errorf("%s: got %s, want %s to %s", what, got, from, to)
	}
}

func TestRenew_GivesAnotherLength(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{TTL: 10 * time.Second, Boottime: stopped})
		lease := mustAcquire(t, l, "job")
		for _, ttl := range []time.Duration{time.Minute, 10 * time.Second, 3 * time.Second, 3 * time.Second} {
			if err := lease.Renew(t.Context(), ttl); err != nil {
				t.Fatalf("Renew(%s): %v", ttl, err)
			}
			trusted := (&Grant{TTL: ttl}).trusted()
			between(t, fmt.Sprint("in Redis after Renew ", ttl), left(t, c), ttl-time.Second, ttl)
			between(t, fmt.Sprint("trusted after Renew ", ttl), lease.Remaining(), trusted-time.Second, trusted)
		}
		// Renewals that come by themselves keep the new length.
		for range 3 {
			time.Sleep(1500 * time.Millisecond)
			between(t, "in Redis, some renewals later", left(t, c), 1200*time.Millisecond, 3*time.Second)
		}
		if s, err := l.Query(t.Context(), "job"); err != nil || s.FencingToken != lease.FencingToken() || s.Holder != l.opt.Holder {
			t.Errorf("Query: got %+v, %v, want the lease's token and holder as they were", s, err)
		}
		mustRelease(t, lease)
		if err := lease.Renew(t.Context(), time.Minute); !errors.Is(err, ErrReleased) {
			t.Errorf("Renew after the release: got %v, want ErrReleased", err)
		}
	})
}

func TestRenew_Refusals(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{TTL: 10 * time.Second, Boottime: stopped, Margin: time.Second, FenceTTL: time.Hour})
		lease := mustAcquire(t, l, "job")
		asked := p.Count(nil)
		for _, ttl := range []time.Duration{-1, 0, time.Millisecond, time.Second, 25 * time.Hour, 2 * time.Hour} {
			if err := lease.Renew(t.Context(), ttl); !errors.Is(err, ErrInvalidOptions) {
				t.Errorf("Renew(%s): got %v, want ErrInvalidOptions", ttl, err)
			}
		}
		if n := p.Count(nil) - asked; n != 0 {
			t.Errorf("bad lengths took %d commands, want none", n)
		}
		bare := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error { return make([]error, len(g)) }, Boottime: stopped})
		kept := bare.Keep(t.Context(), Grant{Name: "job", TTL: time.Minute, Sent: bare.Now()})
		if err := kept.Renew(t.Context(), time.Minute); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Renew of a Keeper's lease: got %v, want ErrUnsupported", err)
		}
		do(t, direct, "SET", "rota:lock:{job}", "ab|7|1000|another", "PX", 60000)
		if err := lease.Renew(t.Context(), 20*time.Second); !errors.Is(err, ErrLost) {
			t.Errorf("Renew of another's lock: got %v, want ErrLost", err)
		}
		lostBy(t, lease, ReasonRefused, 0)
		between(t, "another's lock", left(t, direct), 50*time.Second, time.Minute)
	})
}

// A request that got no answer may be handled at any time later. No length is trusted then that
// it could cut short.
func TestRenew_NeverTrustsMoreThanRedisKeeps(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{TTL: 20 * time.Second, Boottime: stopped, CallTimeout: 200 * time.Millisecond})
		lease := mustAcquire(t, l, "job")
		resizes := redistest.Evalsha(l.resize.SHA())
		if err := lease.Renew(t.Context(), 20*time.Second); err != nil { // the script is known from here on
			t.Fatal(err)
		}
		p.DelayRequests(1, resizes, time.Second)
		if err := lease.Renew(t.Context(), 2*time.Second); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("Renew whose request is held back: got %v, want ErrUnavailable", err)
		}
		between(t, "trusted after an unanswered Renew", lease.Remaining(), 0, 2*time.Second)
		if err := lease.Renew(t.Context(), 30*time.Second); err != nil {
			t.Fatalf("Renew with a longer one: %v", err)
		}
		between(t, "in Redis", left(t, direct), 29*time.Second, 30*time.Second)
		for range 20 { // meanwhile the first one arrives
			time.Sleep(100 * time.Millisecond)
			if trust, redis := lease.Remaining(), left(t, direct); trust > redis {
				t.Fatalf("trusted for %s, while Redis keeps it for %s", trust, redis)
			}
		}
		between(t, "in Redis, after the first one arrived", left(t, direct), time.Millisecond, 2*time.Second)
		mustRelease(t, lease)
	})
}

// Nor while the answer is still out.
func TestRenew_TrustsTheShorterLengthBeforeTheAnswer(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{TTL: 20 * time.Second, Boottime: stopped, CallTimeout: time.Second})
		lease := mustAcquire(t, l, "job")
		if err := lease.Renew(t.Context(), 20*time.Second); err != nil {
			t.Fatal(err)
		}
		p.HangReplies(1, redistest.Evalsha(l.resize.SHA()))
		ended := make(chan error)
		go func() { ended <- lease.Renew(t.Context(), 2*time.Second) }()
		eventually(t, time.Second, "Redis has the shorter length", func() bool { return left(t, direct) <= 2*time.Second })
		if trust, redis := lease.Remaining(), left(t, direct); trust > redis {
			t.Errorf("trusted for %s, while Redis keeps it for %s", trust, redis)
		}
		if err := <-ended; !errors.Is(err, ErrUnavailable) {
			t.Errorf("Renew whose answer hangs: got %v, want ErrUnavailable", err)
		}
		_ = lease.Release(t.Context())
	})
}

func TestRenew_RepeatsWhatGotNoAnswer(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		l := newLocker(t, p.Client(), Options{TTL: 10 * time.Second, Boottime: stopped})
		lease := mustAcquire(t, l, "job")
		p.DropReplies(2, redistest.Evalsha(l.resize.SHA()))
		if err := lease.Renew(t.Context(), time.Minute); err != nil {
			t.Fatalf("Renew: %v", err)
		}
		between(t, "in Redis", left(t, direct), 50*time.Second, time.Minute)
		mustRelease(t, lease)
	})
}

// A server without memory refuses what is new, and not what is held.
func TestRenew_OnAFullServer(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{TTL: 10 * time.Second, CallTimeout: 300 * time.Millisecond})
	lease := mustAcquire(t, l, "job")
	if err := lease.Renew(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1")
	if err := lease.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew with another length: %v", err)
	}
	between(t, "in Redis", left(t, s.Client()), 50*time.Second, time.Minute)
	mustRelease(t, lease)
}
