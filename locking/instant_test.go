package locking

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// at is an instant after the given times on each clock.
func at(mono, boot, wall time.Duration) Instant {
	start := time.Unix(1_700_000_000, 0)
	return Instant{mono: start.Add(mono), boot: boot, wall: start.Add(wall)}
}

func TestInstant_Clocks(t *testing.T) {
	const s = time.Second
	zero := at(0, 0, 0)
	for _, c := range []struct {
		name              string
		now               Instant
		sub, ahead, slept time.Duration
	}{
		{"all run", at(5*s, 5*s, 5*s), 5 * s, 0, 0},
		{"the machine slept", at(1*s, 9*s, 9*s), 9 * s, 0, 8 * s},
		{"no boot clock", at(5*s, 0, 5*s), 5 * s, 0, -5 * s},
		{"the machine was frozen, then the wall clock corrected", at(1*s, 1*s, 61*s), 1 * s, 60 * s, 0},
		{"the wall clock was set back", at(5*s, 5*s, -55*s), 5 * s, -60 * s, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.now.Sub(zero); got != c.sub {
				t.Errorf("Sub: got %s, want %s", got, c.sub)
			}
			if got := c.now.WallAhead(zero); got != c.ahead {
				t.Errorf("WallAhead: got %s, want %s", got, c.ahead)
			}
			if got := c.now.slept(zero); got != c.slept {
				t.Errorf("slept: got %s, want %s", got, c.slept)
			}
		})
	}
	if got := at(0, 0, 0).Sub(Instant{}); got < 100*365*24*time.Hour {
		t.Errorf("Sub of the zero Instant: got %s, want for ever", got)
	}
}

func TestInstant_Add(t *testing.T) {
	const s = time.Second
	got := at(5*s, 60*s, 7*s).Add(3 * s)
	if want := at(8*s, 63*s, 10*s); got != want {
		t.Errorf("Add(3s) = %+v, want %+v", got, want)
	}
	if got.Boottime() != 63*s {
		t.Errorf("Boottime() = %s, want 63s", got.Boottime())
	}
}

func TestBoottime_RunsAsTheMonotonicClock(t *testing.T) {
	before := readInstant(boottime)
	time.Sleep(20 * time.Millisecond)
	after := readInstant(boottime)
	if got := after.boot - before.boot; got < 20*time.Millisecond || got > 10*time.Second {
		t.Errorf("CLOCK_BOOTTIME over a sleep of 20ms: got %s", got)
	}
}

func TestProperty22_SleepIsTimeThatPassed(t *testing.T) {
	for _, c := range []struct {
		name  string
		slept time.Duration
		hangs bool // the renewal that follows
		lost  bool
	}{
		{"longer than the lease", time.Minute, false, true},
		{"longer, and Redis hangs", time.Minute, true, true},
		{"shorter than the lease", 4 * time.Second, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slept, calls atomic.Int64
				start := time.Now()
				k := newKeeper(t, KeeperOptions{
					Boottime: func() time.Duration { return time.Since(start) + time.Duration(slept.Load()) },
					Renew: func(_ context.Context, g []Grant) []error {
						calls.Add(1)
						if c.hangs {
							time.Sleep(time.Minute)
						}
						return make([]error, len(g))
					},
				})
				lease := k.Keep(t.Context(), grantOf(k.Now(), 30*time.Second))
				time.Sleep(time.Second)
				left, deadline := lease.Remaining(), lease.Deadline()
				slept.Store(int64(c.slept))
				if got := lease.Valid(); got == c.lost {
					t.Errorf("Valid right after a sleep of %s: got %t, want %t", c.slept, got, !c.lost)
				}
				if got, want := lease.Remaining(), max(0, left-c.slept); got != want {
					t.Errorf("Remaining: got %s, want %s", got, want)
				}
				if got := deadline.Sub(lease.Deadline()); got != c.slept {
					t.Errorf("Deadline: moved back by %s, want by the sleep, %s", got, c.slept)
				}
				time.Sleep(clockCheck) // no timer of the lease fires in this time
				synctest.Wait()
				if c.lost {
					lostBy(t, lease, ReasonDeadline, 0)
				} else if lease.Err() != nil || calls.Load() != 1 {
					t.Errorf("got Err %v and %d renewals, want a lease that was renewed at once", lease.Err(), calls.Load())
				}
			})
		})
	}
}

func TestProperty22_AWallClockAheadRenewsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		jump    time.Duration
		renewed int64
	}{{"by a minute", time.Minute, 1}, {"by less than a second", 900 * time.Millisecond, 0}, {"back by a minute", -time.Minute, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
					calls.Add(1)
					return make([]error, len(g))
				}})
				lease := k.Keep(t.Context(), grantOf(k.Now(), 30*time.Second))
				last := k.Now()
				now := last
				now.wall = now.wall.Add(c.jump)
				k.compare(now, last)
				k.poke()
				synctest.Wait()
				if got := calls.Load(); got != c.renewed || !lease.Valid() {
					t.Errorf("got %d renewals, valid %t, want %d and a lease", got, lease.Valid(), c.renewed)
				}
			})
		})
	}
	t.Run("since before the grant was asked for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			k := newKeeper(t, KeeperOptions{Renew: func(_ context.Context, g []Grant) []error {
				calls.Add(1)
				return make([]error, len(g))
			}})
			g := grantOf(k.Now(), 30*time.Second)
			g.Sent.wall = g.Sent.wall.Add(-time.Minute)
			k.Keep(t.Context(), g)
			synctest.Wait()
			if got := calls.Load(); got != 1 {
				t.Errorf("got %d renewals, want 1 at once", got)
			}
		})
	})
}
