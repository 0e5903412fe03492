package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/locking"
)

// testClock is a fleetClock whose readings come from a keeper, inside a bubble.
func testClock(t *testing.T) (*fleetClock, func() locking.Instant) {
	t.Helper()
	k, err := locking.NewKeeper(locking.KeeperOptions{
		Renew:    func(context.Context, []locking.Grant) []error { return nil },
		Boottime: func() time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return &fleetClock{instant: k.Now}, k.Now
}

func TestFleetClock_FollowsRedisNotTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, instant := testClock(t)
		// Redis is an hour ahead of this host; a reply took 4 ms.
		ahead := func() time.Time { return time.Now().Add(time.Hour) }
		sent := instant()
		redis := ahead()
		time.Sleep(4 * time.Millisecond)
		if c.observe(sent, redis) {
			t.Error("the first reading counts as a jump")
		}
		for range 3 {
			time.Sleep(time.Minute)
			if d := ahead().Sub(c.Now()); d < 0 || d > 4*time.Millisecond {
				t.Errorf("Now is %s behind Redis, want 0 to the round trip", d)
			}
		}
		if o := c.offset(); o > -59*time.Minute || o < -61*time.Minute {
			t.Errorf("offset %s, want about -1h", o)
		}
		if got, want := c.fromWall(time.Now()), ahead(); want.Sub(got).Abs() > 10*time.Millisecond {
			t.Errorf("fromWall gives %s, want %s", got, want)
		}
	})
}

func TestFleetClock_JumpOfRedisIsSeen(t *testing.T) {
	for _, c := range []struct {
		name string
		step time.Duration
		want bool
	}{
		{"forth", 5 * time.Second, true},
		{"back", -5 * time.Second, true},
		{"slew", 200 * time.Millisecond, false},
		{"slew back", -200 * time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock, instant := testClock(t)
				clock.observe(instant(), time.Now())
				time.Sleep(10 * time.Second)
				redis := time.Now().Add(c.step)
				if got := clock.observe(instant(), redis); got != c.want {
					t.Errorf("a step of %s counts as a jump: %v, want %v", c.step, got, c.want)
				}
				if got := clock.Now(); !got.Equal(redis) {
					t.Errorf("after the step Now is %s, want %s", got, redis)
				}
			})
		})
	}
}

func TestFleetClock_PrefersShortTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, instant := testClock(t)
		c.observe(instant(), time.Now())
		sent, redis := instant(), time.Now()
		time.Sleep(300 * time.Millisecond)
		c.observe(sent, redis) // says no more than: Redis is 0 to 300 ms ahead of this reading
		if got := c.Now(); !got.Equal(time.Now()) {
			t.Errorf("a slow reply moved Now to %s, want %s", got, time.Now())
		}
	})
}

// A claim whose reply never comes: the host asks again with the same run and runs it, once.
func TestScheduler_ClaimWithoutReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "beat", "*/10 * * * * *", f.handler(time.Millisecond))
		f.start("h0", nil, j)
		time.Sleep(3 * time.Second)
		from := time.Now()
		proxy.DropReplies(2, func(args []string) bool { return len(args) > 2 && args[0] == "evalsha" && args[2] == "3" })
		time.Sleep(30 * time.Second)
		proxy.Heal()
		runs, others := f.accounts(j, from, from.Add(29*time.Second))
		if runs < 3 || others != 0 || len(f.ran()) != runs {
			t.Errorf("%d runs, %d other entries, the handler was called %d times; want 3, 0 and 3", runs, others, len(f.ran()))
		}
	})
}
