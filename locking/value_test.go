package locking

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestValue_TakeExtendQueryRelease(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		ctx := t.Context()
		l := newLocker(t, c, Options{Boottime: stopped, Holder: "one"})
		other := newLocker(t, c, Options{Boottime: stopped})
		first, err := l.TakeValue(ctx, "job", "order 17", 10*time.Second)
		if err != nil || first <= 0 {
			t.Fatalf("TakeValue: got %d, %v, want a fencing token", first, err)
		}
		between(t, "in Redis", left(t, c), 9*time.Second, 10*time.Second)
		if v := fmt.Sprint(do(t, c, "GET", "rota:lock:{job}")); strings.Contains(v, "order") {
			t.Errorf("Redis holds the value itself: %s", v)
		}
		// Another process with the same value is the same holder; another value is not.
		again, err := other.TakeValue(ctx, "job", "order 17", 20*time.Second)
		if err != nil || again != first {
			t.Errorf("TakeValue again: got %d, %v, want %d", again, err, first)
		}
		between(t, "in Redis", left(t, c), 19*time.Second, 20*time.Second)
		held, _ := errors.AsType[*HeldError](second(other.TakeValue(ctx, "job", "order 18", time.Second)))
		if held == nil || held.Holder != "one" || held.FencingToken != first {
			t.Errorf("TakeValue for another: got %v, want a HeldError of one with token %d", held, first)
		}
		if _, err := l.TryAcquire(ctx, "job"); !errors.Is(err, ErrHeld) {
			t.Errorf("TryAcquire: got %v, want ErrHeld", err)
		}
		for value, want := range map[string]bool{"order 17": true, "order 18": false} {
			s, own, err := other.QueryValue(ctx, "job", value)
			if err != nil || own != want || !s.Held || s.FencingToken != first || s.Holder != "one" {
				t.Errorf("QueryValue of %q: got %+v, %t, %v, want it held by one, own %t", value, s, own, err, want)
			}
		}
		if err := l.ExtendValue(ctx, "job", "order 17", time.Minute); err != nil {
			t.Errorf("ExtendValue: %v", err)
		}
		between(t, "in Redis", left(t, c), 59*time.Second, time.Minute)
		for what, err := range map[string]error{
			"ExtendValue for another":  l.ExtendValue(ctx, "job", "order 18", time.Second),
			"ReleaseValue for another": l.ReleaseValue(ctx, "job", "order 18"),
		} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s: got %v, want ErrLost", what, err)
			}
		}
		between(t, "in Redis", left(t, c), 58*time.Second, time.Minute)
		if err := l.ReleaseValue(ctx, "job", "order 17"); err != nil {
			t.Errorf("ReleaseValue: %v", err)
		}
		for what, err := range map[string]error{
			"ExtendValue of a free lock":  l.ExtendValue(ctx, "job", "order 17", time.Second),
			"ReleaseValue of a free lock": l.ReleaseValue(ctx, "job", "order 17"),
		} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s: got %v, want ErrLost", what, err)
			}
		}
		if s, own, err := l.QueryValue(ctx, "job", "order 17"); err != nil || own || s.Held || s.FencingToken != first {
			t.Errorf("QueryValue of a free lock: got %+v, %t, %v, want it free and token %d", s, own, err, first)
		}
		if next, err := l.TakeValue(ctx, "job", "order 18", time.Second); err != nil || next <= first {
			t.Errorf("TakeValue: got %d, %v, want more than %d", next, err, first)
		}
	})
}

func second[A, B any](_ A, b B) B { return b }

func TestValue_Refusals(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		ctx := t.Context()
		l := newLocker(t, p.Client(), Options{Boottime: stopped})
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for _, c := range []struct {
			ctx         context.Context
			name, value string
			ttl         time.Duration
			want        error
		}{
			{ctx, "job", "", time.Second, ErrInvalidOptions},
			{ctx, "", "v", time.Second, ErrInvalidName},
			{ctx, "a{b", "v", time.Second, ErrInvalidName},
			{ended, "job", "v", time.Second, context.Canceled},
			{ctx, "job", "v", 0, ErrInvalidOptions},
			{ctx, "job", "v", -1, ErrInvalidOptions},
			{ctx, "job", "v", time.Millisecond, ErrInvalidOptions},
			{ctx, "job", "v", 25 * time.Hour, ErrInvalidOptions},
		} {
			got := map[string]error{
				"TakeValue":   second(l.TakeValue(c.ctx, c.name, c.value, c.ttl)),
				"ExtendValue": l.ExtendValue(c.ctx, c.name, c.value, c.ttl),
			}
			if c.ttl == time.Second {
				_, _, got["QueryValue"] = l.QueryValue(c.ctx, c.name, c.value)
				got["ReleaseValue"] = l.ReleaseValue(c.ctx, c.name, c.value)
			}
			for what, err := range got {
				if !errors.Is(err, c.want) {
					t.Errorf("%s(%q, %q, %s): got %v, want %v", what, c.name, c.value, c.ttl, err, c.want)
				}
			}
		}
		if n := p.Count(nil); n != 0 {
			t.Errorf("refusals took %d commands, want none", n)
		}
		do(t, direct, "RPUSH", "rota:lock:{job}", "x")
		for what, err := range map[string]error{
			"TakeValue":  second(l.TakeValue(ctx, "job", "v", time.Second)),
			"QueryValue": func() error { _, _, err := l.QueryValue(ctx, "job", "v"); return err }(),
		} {
			if !errors.Is(err, ErrConflict) {
				t.Errorf("%s of a list: got %v, want ErrConflict", what, err)
			}
		}
		if err := l.ReleaseValue(ctx, "job", "v"); !errors.Is(err, ErrLost) {
			t.Errorf("ReleaseValue of a list: got %v, want ErrLost", err)
		}
		if n := do(t, direct, "LLEN", "rota:lock:{job}"); n != int64(1) {
			t.Errorf("the list has %v entries, want 1", n)
		}
	})
}

func TestValue_LostReplies(t *testing.T) {
	onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
		ctx := t.Context()
		l := newLocker(t, p.Client(), Options{Boottime: stopped})
		p.DropReplies(1, redistest.Evalsha(l.take.SHA()))
		fence, err := l.TakeValue(ctx, "job", "v", 10*time.Second)
		if err != nil {
			t.Fatalf("TakeValue: %v", err)
		}
		p.DropReplies(1, redistest.Evalsha(l.resize.SHA()))
		if err := l.ExtendValue(ctx, "job", "v", 20*time.Second); err != nil {
			t.Errorf("ExtendValue: %v", err)
		}
		between(t, "in Redis", left(t, direct), 19*time.Second, 20*time.Second)
		if s, own, err := l.QueryValue(ctx, "job", "v"); err != nil || !own || s.FencingToken != fence {
			t.Errorf("QueryValue: got %+v, %t, %v, want its own with token %d", s, own, err, fence)
		}
		p.DropReplies(1, redistest.Evalsha(l.release.SHA()))
		if err := l.ReleaseValue(ctx, "job", "v"); err != nil {
			t.Errorf("ReleaseValue: %v", err)
		}
		p.Cut()
		for what, err := range map[string]error{
			"TakeValue":    second(l.TakeValue(ctx, "job", "v", time.Second)),
			"ReleaseValue": l.ReleaseValue(ctx, "job", "v"),
		} {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%s without Redis: got %v, want ErrUnavailable", what, err)
			}
		}
	})
}

// Whoever waits for a lock is told when a value gives it back, too.
func TestValue_ReleaseIsTold(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := slowPoller(t, c)
		if _, err := l.TakeValue(t.Context(), "job", "v", time.Hour); err != nil {
			t.Fatal(err)
		}
		got := waiting(t, slowPoller(t, c), "job")
		time.Sleep(300 * time.Millisecond)
		if err := l.ReleaseValue(t.Context(), "job", "v"); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, mustCome(t, got))
	})
}

// An acquisition that arrives once more must not take back the length that its lease has got since.
func TestRenew_ARepeatedAcquireKeepsTheLength(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{TTL: time.Second, Boottime: stopped})
		lease := mustAcquire(t, l, "job")
		if err := lease.Renew(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := l.acquire.Run(t.Context(), c, []string{"rota:lock:{job}", "rota:lock:{job}:fence"},
			lease.grant.Token.Reveal(), 1000, 0, 60000, "one"); err != nil {
			t.Fatal(err)
		}
		between(t, "in Redis", left(t, c), 59*time.Second, time.Minute)
		mustRelease(t, lease)
	})
}
