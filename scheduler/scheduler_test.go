package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

func TestScheduler_OneRunATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "beat", "* * * * * *", f.handler(time.Millisecond))
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		time.Sleep(3 * time.Second)
		from := time.Now()
		time.Sleep(20*time.Second + 500*time.Millisecond)
		runs, others := f.accounts(j, from, time.Now().Add(-500*time.Millisecond))
		if runs < 20 || others != 0 {
			t.Errorf("accounts: %d runs and %d ticks without one, want 20 or more and none", runs, others)
		}
		hosts := map[string]bool{}
		for _, r := range f.ran() {
			hosts[r.Host] = true
		}
		if len(hosts) < 2 {
			t.Errorf("runs spread over %d hosts, want more than one", len(hosts))
		}
	})
}

func TestScheduler_OverlapSkipsAndRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "long", "* * * * *", f.handler(90*time.Second))
		f.start("h0", nil, j)
		time.Sleep(5*time.Minute + 30*time.Second)
		var got []string
		for _, e := range f.history("long") {
			got = append(got, e.Tick.Format("15:04")+" "+e.Outcome)
		}
		want := []string{"00:01 succeeded", "00:02 skipped", "00:03 succeeded", "00:04 skipped", "00:05 running"}
		if len(got) != len(want) {
			t.Fatalf("history: got %q, want %q", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("history[%d]: got %q, want %q", i, got[i], want[i])
			}
		}
		if e := f.history("long")[1]; e.Holder != "h0" {
			t.Errorf("skipped entry names holder %q, want h0", e.Holder)
		}
	})
}

func TestScheduler_TimeoutEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "slow", "* * * * *", f.handler(time.Hour))
		j.Timeout = 10 * time.Second
		f.start("h0", nil, j)
		time.Sleep(75 * time.Second)
		e := f.history("slow")[0]
		if e.Outcome != string(jobs.TimedOut) || e.Ended.Sub(e.Started) != 10*time.Second {
			t.Errorf("run ended %s after %s, want timed_out after 10s", e.Outcome, e.Ended.Sub(e.Started))
		}
	})
}

// A lock that is deleted under a run ends it at the next renewal, as lost.
func TestScheduler_LostLeaseEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "* * * * *", f.handler(time.Hour))
		h := f.start("h0", nil, j)
		time.Sleep(65 * time.Second)
		f.redis.Del("{t}:lock:work")
		time.Sleep(2 * time.Second)
		e := f.history("work")[0]
		if e.Outcome != string(jobs.Lost) {
			t.Errorf("outcome %q (%s), want lost", e.Outcome, e.Reason)
		}
		if f.redis.Exists("{t}:lock:work") {
			t.Error("the old holder made the lock again")
		}
		// The daemon lives, and the next tick runs.
		time.Sleep(time.Minute)
		if n := len(f.history("work")); n != 2 {
			t.Errorf("history has %d entries, want 2", n)
		}
		_ = h
	})
}

// Renewals that fail end the run in time, and neither the daemon nor the next ticks.
func TestScheduler_RedisAwayUnderARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		told := make(chan time.Time, 1)
		j := job(t, "work", "0 * * * *", jobs.Func(func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			told <- time.Now()
			return context.Cause(ctx)
		}))
		f.start("h0", nil, j)
		time.Sleep(time.Hour + 5*time.Second - time.Since(time.Now().Truncate(time.Hour)))
		away := time.Now()
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(12 * time.Second)
		if len(told) == 0 {
			t.Fatal("the run goes on 12 s after Redis went away, under a lease of 10 s")
		}
		// The last good renewal was within a second before; the context ends LossGrace before
		// the trust deadline.
		if lasted := (<-told).Sub(away); lasted > 9*time.Second || lasted < 7*time.Second {
			t.Errorf("the run was told %s after Redis went away, want 7 s to 9 s", lasted)
		}
		f.redis.SetError("")
		time.Sleep(5 * time.Second)
		if e := f.history("work")[0]; e.Outcome != string(jobs.Lost) {
			t.Errorf("outcome %q (%s), want lost", e.Outcome, e.Reason)
		}
	})
}

func TestScheduler_DrainLetsRunsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "* * * * *", f.handler(20*time.Second))
		h := f.start("h0", nil, j)
		time.Sleep(65 * time.Second)
		begun := time.Now()
		h.stop()
		<-h.ended
		if d := time.Since(begun); d > 20*time.Second {
			t.Errorf("drain took %s, the run had 15 s to go", d)
		}
		if e := f.history("work")[0]; e.Outcome != string(jobs.Succeeded) {
			t.Errorf("outcome %q, want succeeded", e.Outcome)
		}
		if f.redis.Exists("{t}:lock:work") {
			t.Error("the lock is still held after the drain")
		}
	})
}

func TestScheduler_DrainInterruptsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "* * * * *", f.handler(time.Hour))
		h := f.start("h0", func(o *Options) { o.Drain = 5 * time.Second }, j)
		time.Sleep(65 * time.Second)
		begun := time.Now()
		h.stop()
		<-h.ended
		if d := time.Since(begun); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("drain took %s, want its 5 s", d)
		}
		if e := f.history("work")[0]; e.Outcome != string(jobs.Interrupted) {
			t.Errorf("outcome %q, want interrupted", e.Outcome)
		}
	})
}

// Who is told twice to stop says so of every run: the drain time was not over. Many runs, for whichever of the
// two reasons came first would count.
func TestScheduler_KilledWhileItDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var table []Job
		for i := range 50 {
			table = append(table, job(t, fmt.Sprint("j", i), "* * * * *", f.handler(time.Hour)))
		}
		h := f.start("h0", func(o *Options) { o.MaxRuns = 100 }, table...)
		time.Sleep(65 * time.Second)
		h.stop()
		synctest.Wait()
		h.Kill()
		<-h.ended
		for _, j := range table {
			e := f.history(j.Name)[0]
			if want := "interrupted: the daemon was told to stop at once"; e.Outcome != string(jobs.Interrupted) || e.Reason != want {
				t.Errorf("%s: %s, %q; want interrupted, %q", j.Name, e.Outcome, e.Reason, want)
			}
		}
	})
}

// A Go handler that ignores its end: the run is lost at once, its job stays closed on that
// host, and stopping does not wait for it (E26).
func TestScheduler_HandlerThatIgnoresItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var calls atomic.Int32
		release := make(chan struct{})
		j := job(t, "deaf", "* * * * *", jobs.Func(func(context.Context, jobs.Run) error {
			calls.Add(1)
			<-release
			return nil
		}))
		h := f.start("h0", func(o *Options) { o.StopGrace = 3 * time.Second; o.Drain = time.Second }, j)
		time.Sleep(65 * time.Second)
		f.redis.Del("{t}:lock:deaf")
		time.Sleep(5 * time.Second)
		if e := f.history("deaf")[0]; e.Outcome != string(jobs.Lost) {
			t.Errorf("outcome %q, want lost while the handler still goes", e.Outcome)
		}
		time.Sleep(2 * time.Minute)
		if n := calls.Load(); n != 1 {
			t.Errorf("handler was called %d times, want 1 until it returns", n)
		}
		begun := time.Now()
		h.stop()
		<-h.ended
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("stopping took %s, the handler must not delay it", d)
		}
		close(release)
	})
}

// A tick is never run because its schedule was just written.
func TestScheduler_NewJobDoesNotRunRetroactively(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "hourly", "0 * * * *", f.handler(time.Second))
		j.StartDeadline = time.Hour
		time.Sleep(10 * time.Minute) // the tick of the full hour is 10 minutes old
		f.start("h0", nil, j)
		time.Sleep(10 * time.Minute)
		if n := len(f.ran()); n != 0 {
			t.Errorf("a job loaded ten minutes after its tick ran %d times, want 0", n)
		}
	})
}

// A fleet that was away over a tick runs it when it is back within the start deadline.
func TestScheduler_TickWithinDeadlineRunsAfterRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "hourly", "0 * * * *", f.handler(time.Second))
		h := f.start("h0", nil, j)
		time.Sleep(50 * time.Minute)
		h.stop()
		<-h.ended
		time.Sleep(20 * time.Minute)
		f.start("h1", nil, j)
		time.Sleep(time.Minute)
		if n := len(f.ran()); n != 1 {
			t.Fatalf("the tick ran %d times, want once, ten minutes late", n)
		}
		if e := f.history("hourly")[0]; e.Lag() < 10*time.Minute {
			t.Errorf("lag %s, want over 10m", e.Lag())
		}
	})
}

// All hosts away for 101 minutes (C04): what passed is one range, and nothing is caught up.
func TestScheduler_LongOutageIsOneRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "minutely", "* * * * *", f.handler(time.Second))
		from := time.Now()
		h := f.start("h0", nil, j)
		time.Sleep(5*time.Minute + 10*time.Second)
		h.stop()
		<-h.ended
		time.Sleep(101 * time.Minute)
		f.start("h1", nil, j)
		time.Sleep(3 * time.Minute)
		runs, others := f.accounts(j, from, time.Now().Add(-20*time.Second))
		if runs+others < 108 || others < 99 || others > 101 {
			t.Errorf("accounts: %d runs, %d missed, want about 9 and 100", runs, others)
		}
		ranges := 0
		for _, e := range f.history("minutely") {
			if e.Outcome == ledger.OutcomeMissed {
				ranges++
			}
		}
		if ranges != 1 {
			t.Errorf("the outage is %d entries, want one range", ranges)
		}
	})
}

func TestScheduler_ManualRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "0 0 1 1 *", f.handler(10*time.Second))
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		time.Sleep(3 * time.Second)
		ask := func() string {
			id, err := f.led.Ask(t.Context(), ledger.Request{Job: "work", Who: "test"})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		first := ask()
		time.Sleep(3 * time.Second)
		second := ask()
		time.Sleep(20 * time.Second)
		var ran, refused string
		for _, e := range f.history("work") {
			if e.Run != "" {
				ran += e.Request
			} else {
				refused += e.Request
			}
		}
		if ran != first || refused != second {
			t.Errorf("ran request %q and refused %q, want %q and %q", ran, refused, first, second)
		}
	})
}

// A tick that nobody could start in time is in the ledger as soon as somebody is there to write
// it, not with the job's next tick, which may be a day away.
func TestScheduler_MissedTickIsRecordedAtOnce(t *testing.T) {
	outages := map[string]func(f *fleet, h *host, j Job){
		"all hosts were down": func(f *fleet, h *host, j Job) {
			h.stop()
			<-h.ended
			time.Sleep(20 * time.Minute)
			f.start("h1", nil, j)
		},
		"redis was away": func(f *fleet, _ *host, _ Job) {
			f.redis.SetError("LOADING Redis is loading the dataset in memory")
			time.Sleep(20 * time.Minute)
			f.redis.SetError("")
		},
	}
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				j := job(t, "hourly", "0 * * * *", f.handler(time.Second))
				j.StartDeadline = time.Minute
				h := f.start("h0", nil, j)
				time.Sleep(time.Hour + 50*time.Minute) // it ran at 01:00
				outage(f, h, j)
				time.Sleep(10 * time.Second)
				e := f.history("hourly")
				if len(e) != 2 || e[1].Outcome != ledger.OutcomeMissed || !e[1].Tick.Equal(e[0].Tick.Add(time.Hour)) {
					t.Errorf("ten minutes after 02:00 the history is %v, want the tick of 02:00 missed", e)
				}
			})
		})
	}
}
