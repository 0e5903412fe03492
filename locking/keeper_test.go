package locking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func jsonLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newKeeper(t *testing.T, opt KeeperOptions) *Keeper {
	t.Helper()
	if opt.Boottime == nil {
		opt.Boottime = stopped
	}
	k, err := NewKeeper(opt)
	if err != nil {
		t.Fatalf("NewKeeper: %v", err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func grantOf(sent Instant, ttl time.Duration) Grant {
	return Grant{Name: "report", Token: NewToken(), Fence: 7, TTL: ttl, Sent: sent}
}

// renewed is a Renew that renews.
func renewed(_ context.Context, grants []Grant) []error { return make([]error, len(grants)) }

// all answers every grant with err.
func all(grants []Grant, err error) []error {
	errs := make([]error, len(grants))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func TestNewKeeper_RefusesAllFaultsAtOnce(t *testing.T) {
	_, err := NewKeeper(KeeperOptions{RenewEvery: -1, Notice: -1, CallTimeout: -1})
	for _, want := range []string{"Renew", "RenewEvery", "Notice", "CallTimeout"} {
		if !errors.Is(err, ErrInvalidOptions) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("NewKeeper: got %v, want ErrInvalidOptions that names %s", err, want)
		}
	}
}

func TestKeeper_LeasesShareTheirCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, grants atomic.Int64
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			calls.Add(1)
			grants.Add(int64(len(g)))
			return make([]error, len(g))
		}})
		var leases []*Lease
		for range 100 {
			leases = append(leases, k.Keep(t.Context(), grantOf(k.Now(), 30*time.Second)))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		calls.Store(0)
		grants.Store(0)
		time.Sleep(time.Minute)
		if calls, grants := calls.Load(), grants.Load(); grants < 500 || calls*5 > grants {
			t.Errorf("100 leases for a minute: %d renewals in %d calls, want many in each", grants, calls)
		}
		for _, l := range leases {
			if l.Err() != nil {
				t.Fatalf("Err: %v", l.Err())
			}
		}
	})
}

func TestKeeper_AHungCallDelaysNoOtherLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			if g[0].Name == "hangs" {
				<-hung // whatever the context says
			}
			return make([]error, len(g))
		}})
		bad := grantOf(k.Now(), 3*time.Second)
		bad.Name = "hangs"
		hangs := k.Keep(t.Context(), bad)
		time.Sleep(500 * time.Millisecond)
		lives := k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second))
		lostBy(t, hangs, ReasonDeadline, 3*time.Second)
		time.Sleep(10 * time.Second)
		if lives.Err() != nil {
			t.Errorf("the other lease: got %v, want it renewed", lives.Err())
		}
		close(hung)
	})
}

func TestKeeper_CallsAreBoundedInTimeAndNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, most atomic.Int64
		var longest atomic.Int64
		k := newKeeper(t, KeeperOptions{CallTimeout: time.Second, Renew: func(ctx context.Context, g []Grant) []error {
			most.Store(max(most.Load(), under.Add(1)))
			defer under.Add(-1)
			start := time.Now()
			<-ctx.Done()
			longest.Store(max(longest.Load(), int64(time.Since(start))))
			return all(g, ctx.Err())
		}})
		for i := range 64 {
			k.Keep(t.Context(), grantOf(k.Now(), time.Second<<(i%6)))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := most.Load(); got > maxInFlight || got < 2 {
			t.Errorf("%d calls at once, want several and at most %d", got, maxInFlight)
		}
		if got := time.Duration(longest.Load()); got > time.Second {
			t.Errorf("a call took %s, want at most CallTimeout, 1s", got)
		}
	})
}

func TestKeeper_NoticeEndsTheContextButKeepsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		k := newKeeper(t, KeeperOptions{
			RenewEvery: 5 * time.Second,
			Notice:     5 * time.Second,
			Renew: func(_ context.Context, g []Grant) []error {
				if failing.Load() {
					return all(g, ErrUnavailable)
				}
				return make([]error, len(g))
			},
		})
		lease := k.Keep(t.Context(), grantOf(k.Now(), 30*time.Second))
		time.Sleep(time.Minute)
		failing.Store(true)
		deadline := lease.Deadline()
		<-lease.Context().Done()
		if got := time.Until(deadline); got != 5*time.Second {
			t.Errorf("the context ended %s before the trust deadline, want Notice, 5s", got)
		}
		if got := lease.TrustedUntil().Time(); !got.Equal(deadline) {
			t.Errorf("TrustedUntil: got %s, want the deadline, %s", got, deadline)
		}
		lostBy(t, lease, ReasonFailing, 0)
		if !errors.Is(lease.Err(), ErrUnavailable) {
			t.Errorf("Err: got %v, want the last failure in it", lease.Err())
		}
		if !lease.Valid() {
			t.Error("Valid: got false, want true until the trust deadline")
		}
		failing.Store(false) // it is kept for as long as the holder winds up
		time.Sleep(time.Minute)
		if !lease.Valid() || lease.Context().Err() == nil {
			t.Errorf("renewals work again: got valid %t, context %v, want a kept lease whose context stays ended", lease.Valid(), lease.Context().Err())
		}
		failing.Store(true)
		time.Sleep(lease.Remaining())
		if lease.Valid() {
			t.Error("Valid after the trust deadline: got true")
		}
	})
}

func TestKeep_AGrantWithinNoticeIsLostAtOnceAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, KeeperOptions{Notice: 5 * time.Second, Renew: renewed})
		lease := k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second))
		lostBy(t, lease, ReasonFailing, 0)
		time.Sleep(time.Minute)
		if !lease.Valid() {
			t.Error("Valid a minute later: got false, want that it is kept")
		}
	})
}

func TestKeeper_FailFastEndsAtTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, KeeperOptions{
			RenewEvery: 5 * time.Second,
			FailFast:   true,
			Renew:      func(_ context.Context, g []Grant) []error { return all(g, ErrUnavailable) },
		})
		lease := k.Keep(t.Context(), grantOf(k.Now(), 30*time.Second))
		lostBy(t, lease, ReasonFailing, 5*time.Second)
		if !lease.Valid() {
			t.Error("Valid: got false, want true: the lease may still be ours")
		}
	})
}

func TestKeeper_WhateverRenewDoes(t *testing.T) {
	for _, c := range []struct {
		name   string
		renew  func(context.Context, []Grant) []error
		reason Reason
	}{
		{"it panics", func(context.Context, []Grant) []error { panic("boom") }, ReasonPanicked},
		{"it ends its goroutine", func(context.Context, []Grant) []error { runtime.Goexit(); return nil }, ReasonDeadline},
		{"it returns too few errors", func(context.Context, []Grant) []error { return nil }, ReasonDeadline},
		{"it says lost", func(_ context.Context, g []Grant) []error { return all(g, fmt.Errorf("renew: %w", ErrLost)) }, ReasonRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, KeeperOptions{Renew: c.renew})
				start := time.Now()
				lease := k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second))
				lostBy(t, lease, c.reason, 3*time.Second)
				if c.reason != ReasonDeadline && time.Since(start) > time.Second {
					t.Errorf("it ended after %s, want at the first renewal", time.Since(start))
				}
			})
		})
	}
}

func TestKeep_TheParentsEndDoesNotStopRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			calls.Add(1)
			return make([]error, len(g))
		}})
		type key struct{}
		parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "v"))
		lease := k.Keep(parent, grantOf(k.Now(), 3*time.Second))
		if got := lease.Context().Value(key{}); got != "v" {
			t.Errorf("value of the context: got %v, want the parent's", got)
		}
		enough := errors.New("enough")
		cancel(enough)
		<-lease.Context().Done()
		if got := context.Cause(lease.Context()); !errors.Is(got, enough) {
			t.Errorf("cause: got %v, want the parent's", got)
		}
		before := calls.Load()
		time.Sleep(10 * time.Second)
		if lease.Err() != nil || !lease.Valid() || calls.Load() < before+9 {
			t.Errorf("10s later: got Err %v, valid %t, %d renewals, want a kept lease", lease.Err(), lease.Valid(), calls.Load()-before)
		}
	})
}

func TestKeep_GrantsThatCannotBeTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, KeeperOptions{Renew: renewed})
		old := k.Now()
		time.Sleep(time.Second)
		lostBy(t, k.Keep(t.Context(), grantOf(old, time.Second)), ReasonDeadline, 0)
		lostBy(t, k.Keep(t.Context(), grantOf(Instant{}, time.Hour)), ReasonDeadline, 0)
		lostBy(t, k.Keep(t.Context(), Grant{Name: "report", Sent: k.Now()}), ReasonDeadline, 0)
	})
}

func TestKeeper_CloseEndsWhatItKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		k := newKeeper(t, KeeperOptions{Renew: func(ctx context.Context, g []Grant) []error {
			calls.Add(1)
			<-ctx.Done()
			return all(g, ctx.Err())
		}})
		lease := k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second))
		time.Sleep(1100 * time.Millisecond) // a call is under way
		for range 2 {
			if err := k.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
		lostBy(t, lease, ReasonClosed, 0)
		if !errors.Is(lease.Err(), ErrClosed) {
			t.Errorf("Err: got %v, want ErrClosed in it", lease.Err())
		}
		lostBy(t, k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second)), ReasonClosed, 0)
		before := calls.Load()
		time.Sleep(10 * time.Second)
		if got := calls.Load(); got != before {
			t.Errorf("%d calls after Close, want none", got-before)
		}
		lease.Stop()
	})
}

func TestStop_WaitsForTheRenewalUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under, calls atomic.Int64
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			calls.Add(1)
			under.Add(1)
			time.Sleep(200 * time.Millisecond)
			under.Add(-1)
			return make([]error, len(g))
		}})
		for i := range 50 {
			lease := k.Keep(t.Context(), grantOf(k.Now(), 3*time.Second))
			time.Sleep(880*time.Millisecond + time.Duration(i)*7*time.Millisecond)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(lease.Stop)
			}
			wg.Wait()
			if n := under.Load(); n != 0 {
				t.Fatalf("Stop returned while %d renewals are under way", n)
			}
			before := calls.Load()
			time.Sleep(5 * time.Second)
			if n := calls.Load(); n != before {
				t.Fatalf("%d renewals after Stop, want none", n-before)
			}
			if got := context.Cause(lease.Context()); !errors.Is(got, ErrReleased) || !errors.Is(lease.Err(), ErrReleased) || lease.Valid() {
				t.Fatalf("after Stop: got cause %v, Err %v, valid %t, want released", got, lease.Err(), lease.Valid())
			}
		}
	})
}

func TestRenewNow_RenewsAllAndWhatIsUnderWayAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var grants atomic.Int64
		k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
			grants.Add(int64(len(g)))
			time.Sleep(100 * time.Millisecond)
			return make([]error, len(g))
		}})
		for range 3 {
			k.Keep(t.Context(), grantOf(k.Now(), time.Minute))
		}
		time.Sleep(time.Second)
		k.RenewNow()
		time.Sleep(50 * time.Millisecond)
		if got := grants.Load(); got != 3 {
			t.Errorf("RenewNow: %d renewals at once, want 3", got)
		}
		k.RenewNow() // those under way were sent before
		time.Sleep(time.Second)
		if got := grants.Load(); got != 6 {
			t.Errorf("RenewNow during a call: %d renewals, want 6", got)
		}
	})
}
