package scheduler

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// redisClock makes the clock of the fleet's Redis differ from the bubble's, by a value that
// may be changed.
func (f *fleet) redisClock() *atomic.Int64 {
	off := &atomic.Int64{}
	set := func() { f.redis.SetTime(time.Now().Add(time.Duration(off.Load()))) }
	set()
	end := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-time.After(5 * time.Millisecond):
				set()
			case <-end:
				return
			}
		}
	}()
	f.t.Cleanup(func() { close(end); <-done })
	return off
}

// ticks counts how often each tick of a job ran, by the handlers' own word.
func (f *fleet) ticks(job string) map[time.Time]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[time.Time]int{}
	for _, r := range f.runs {
		if r.Job == job {
			out[r.Tick]++
		}
	}
	return out
}

// Redis' clock wavers by two seconds every five minutes for an hour: sixty runs, each of a
// minute of its own (C08).
func TestStep_SmallStepsOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		off := f.redisClock()
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		for _, name := range names(2) {
			f.start(name, nil, j)
		}
		time.Sleep(3 * time.Second)
		for i := range 12 {
			off.Store(int64(2 * time.Second * time.Duration(i%2*2-1)))
			time.Sleep(5 * time.Minute)
		}
		got := f.ticks("j")
		if len(got) < 59 || len(got) > 60 {
			t.Errorf("%d minutes ran in an hour, want 59 or 60", len(got))
		}
		for tick, n := range got {
			if n != 1 {
				t.Errorf("tick %s ran %d times", tick, n)
			}
		}
	})
}

// Redis' clock runs ahead by two hours, a tick runs there, and the clock is set right: the job
// waits for a reset, says so, and runs at the next minute after that. Nothing runs twice (C01).
func TestStep_RedisAheadAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		off := f.redisClock()
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		f.start("h0", nil, j)
		time.Sleep(90 * time.Second)
		off.Store(int64(2 * time.Hour))
		time.Sleep(70 * time.Second)
		ahead := len(f.ticks("j"))
		if ahead < 2 {
			t.Fatalf("%d ticks ran, want one before and one after the step", ahead)
		}
		off.Store(0)
		time.Sleep(3 * time.Minute)
		if n := len(f.ticks("j")); n != ahead {
			t.Errorf("%d ticks ran while the cursor lies two hours ahead, want none", n-ahead)
		}
		was, ok, err := f.led.Reset(t.Context(), "j")
		if err != nil || !ok || was.Before(time.Now().Add(time.Hour)) {
			t.Fatalf("Reset = %s, %v, %v; want the cursor of two hours ahead taken back", was, ok, err)
		}
		time.Sleep(2 * time.Minute)
		got := f.ticks("j")
		if n := len(got) - ahead; n < 1 || n > 2 {
			t.Errorf("%d ticks ran in the two minutes after the reset, want 1 or 2", n)
		}
		for tick, n := range got {
			if n != 1 {
				t.Errorf("tick %s ran %d times", tick, n)
			}
		}
	})
}

// A daemon starts while Redis' clock runs ahead, and the clock is set right: what it took for the
// beginning of its schedules lies ahead, and guards nothing. After a reset the job runs (C01).
func TestStep_StartedWhileRedisRanAhead(t *testing.T) {
	for _, hash := range []string{"s", "another"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			off := f.redisClock()
			off.Store(int64(2 * time.Hour))
			time.Sleep(10 * time.Millisecond)
			j := job(t, "j", "* * * * *", f.handler(time.Second))
			f.start("h0", nil, j)
			other := j
			other.ScheduleHash = hash // of a table that is being replaced
			f.start("h1", nil, other)
			time.Sleep(90 * time.Second)
			ahead := len(f.ticks("j"))
			off.Store(0)
			time.Sleep(10 * time.Second)
			if _, _, err := f.led.Reset(t.Context(), "j"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			if n := len(f.ticks("j")) - ahead; n < 9 || n > 10 {
				t.Errorf("schedules s and %s: %d ticks ran in the ten minutes after the reset, want 9 or 10", hash, n)
			}
		})
	}
}

// A host sleeps for ten minutes under a run: when it wakes up the lease is gone, and it knows,
// although its monotonic clock stood still. The next tick is not late by the sleep (C03).
func TestStep_HostSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		off := f.redisClock()
		slept := &atomic.Int64{}
		begun := time.Now()
		boottime := func() time.Duration { return time.Since(begun) + time.Duration(slept.Load()) }
		long := job(t, "long", "0 * * * *", f.handler(time.Hour))
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		f.start("h0", func(o *Options) { o.Boottime = boottime }, j, long)
		time.Sleep(time.Hour + 20*time.Second)
		if len(f.ticks("long")) != 1 {
			t.Fatal("the long run did not begin")
		}
		off.Store(int64(10 * time.Minute))
		f.redis.FastForward(10 * time.Minute) // its keys aged
		slept.Store(int64(10 * time.Minute))
		woke := time.Now().Add(10 * time.Minute)
		time.Sleep(3 * time.Second)
		if e := f.history("long"); e[0].Outcome != string(jobs.Lost) {
			t.Errorf("the run that slept is %s (%s), want lost", e[0].Outcome, e[0].Reason)
		}
		time.Sleep(2 * time.Minute)
		for _, e := range f.history("j") {
			if e.Run == "" || e.Tick.Before(woke) {
				continue
			}
			if e.Lag() > 2*time.Second {
				t.Errorf("tick %s after the sleep ran %s late", e.Tick, e.Lag())
			}
			return
		}
		t.Error("no tick ran after the sleep")
	})
}
