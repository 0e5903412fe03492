package scheduler

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

var tester = ledger.By{Who: "test", Why: "maintenance"}

// A paused job, and a paused fleet: their ticks are skipped, in one range, and nothing is
// caught up when they are resumed.
func TestSteer_PauseAndResume(t *testing.T) {
	for _, c := range []struct{ name, what string }{{"one job", "j"}, {"the fleet", ledger.AllJobs}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				j := job(t, "j", "* * * * *", f.handler(time.Second))
				for _, name := range names(2) {
					f.start(name, nil, j)
				}
				time.Sleep(2*time.Minute + 30*time.Second)
				if _, err := f.led.Pause(t.Context(), c.what, 0, tester, time.Hour); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				if ok, err := f.led.Resume(t.Context(), c.what, tester); !ok || err != nil {
					t.Fatalf("Resume = %v, %v", ok, err)
				}
				time.Sleep(2 * time.Minute)
				var got []string
				for _, e := range f.history("j") {
					line := e.Tick.Format("04 ") + e.Outcome
					if e.Count > 0 {
						line += e.Until.Format(" to 04")
					}
					got = append(got, line)
					if e.Outcome == ledger.OutcomeSkipped && !strings.Contains(e.Reason, "test: maintenance") {
						t.Errorf("the skipped range says %q, want who paused and why", e.Reason)
					}
				}
				want := "01 succeeded,02 succeeded,03 skipped to 07,08 succeeded,09 succeeded"
				if s := strings.Join(got, ","); s != want {
					t.Errorf("history is %s, want %s", s, want)
				}
			})
		})
	}
}

func TestSteer_PauseEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		f.start("h0", nil, j)
		time.Sleep(90 * time.Second)
		if _, err := f.led.Pause(t.Context(), "j", 2*time.Minute, tester, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		runs, others := f.accounts(j, time.Now().Add(-4*time.Minute), time.Now().Add(-time.Minute))
		if runs != 2 || others != 2 {
			t.Errorf("%d runs and %d skipped ticks, want 2 and 2", runs, others)
		}
	})
}

// A drained host claims nothing, over a restart too; the others do its work.
func TestSteer_DrainedHostClaimsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * * *", f.handler(time.Millisecond))
		a := f.start("a", nil, j)
		f.start("b", nil, j)
		time.Sleep(5 * time.Second)
		if _, err := f.led.DrainHost(t.Context(), "a", false, tester); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		a.stop()
		<-a.ended
		f.start("a", nil, j)
		from := time.Now()
		time.Sleep(10*time.Second + 500*time.Millisecond)
		for _, e := range f.history("j") {
			if e.Tick.After(from) && e.Host != "b" {
				t.Errorf("tick %s ran on %s, which is drained", e.Tick, e.Host)
			}
		}
		if runs, others := f.accounts(j, from, from.Add(10*time.Second)); runs < 10 || others != 0 {
			t.Errorf("%d runs and %d other entries, want one run a tick", runs, others)
		}
		if ok, err := f.led.DrainHost(t.Context(), "a", true, tester); !ok || err != nil {
			t.Fatalf("undo = %v, %v", ok, err)
		}
		undone := time.Now()
		time.Sleep(20 * time.Second)
		again := false
		for _, e := range f.history("j") {
			again = again || e.Tick.After(undone) && e.Host == "a"
		}
		if !again {
			t.Error("a ran nothing in 20 s after its drain was undone")
		}
	})
}

// What became due while the only host was drained still runs within its start deadline.
func TestSteer_UndrainedWithinTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(time.Second))
		f.start("h0", nil, j)
		until(t, "01:30:00")
		if _, err := f.led.DrainHost(t.Context(), "h0", false, tester); err != nil {
			t.Fatal(err)
		}
		until(t, "02:10:00")
		f.wantSays("j", "01:00:00 succeeded")
		if _, err := f.led.DrainHost(t.Context(), "h0", true, tester); err != nil {
			t.Fatal(err)
		}
		until(t, "02:10:05")
		f.wantSays("j", "01:00:00 succeeded", "02:00:00 succeeded")
	})
}

// A cancelled run ends within a second wherever it is, and says who cancelled it.
func TestSteer_Cancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Hour))
		f.start("h0", func(o *Options) { o.TTL = time.Minute; o.RenewEvery = 15 * time.Second }, j)
		time.Sleep(70 * time.Second)
		run := f.history("j")[0].Run
		if err := f.led.Cancel(t.Context(), run, tester); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		e := f.history("j")[0]
		if e.Outcome != string(jobs.Cancelled) || !strings.Contains(e.Reason, "test: maintenance") {
			t.Errorf("a second later the run is %s (%s), want cancelled by test", e.Outcome, e.Reason)
		}
		if err := f.led.Cancel(t.Context(), run, tester); !errors.Is(err, ledger.ErrEnded) {
			t.Errorf("Cancel of an ended run = %v, want ErrEnded", err)
		}
		if err := f.led.Cancel(t.Context(), "nonsense", tester); !errors.Is(err, ledger.ErrNoRun) {
			t.Errorf("Cancel of no run = %v, want ErrNoRun", err)
		}
	})
}

// FLUSHALL: a pause and a drain are written back from what the daemons know, no decided tick
// runs again, and tokens go on rising.
func TestMemory_FlushedRedisIsToldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * * *", f.handler(time.Millisecond))
		held := job(t, "held", "* * * * * *", f.handler(time.Millisecond))
		held.ScheduleHash = "held"
		for _, name := range []string{"a", "b", "c"} {
			f.start(name, nil, j, held)
		}
		time.Sleep(5 * time.Second)
		if _, err := f.led.Pause(t.Context(), "held", 0, tester, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := f.led.DrainHost(t.Context(), "c", false, tester); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3500 * time.Millisecond)
		f.mu.Lock()
		ran := map[string]int64{}
		for _, r := range f.runs {
			ran[r.Job+r.Tick.String()] = r.Token
		}
		before := len(f.runs)
		last := f.runs[before-1].Token
		f.mu.Unlock()

		f.redis.FlushAll()
		flushed := time.Now()
		time.Sleep(10 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		ticks := map[time.Time]bool{}
		for _, r := range f.runs[before:] {
			if ran[r.Job+r.Tick.String()] != 0 {
				t.Errorf("%s: tick %s ran again after the flush", r.Job, r.Tick)
			}
			if r.Token <= last {
				t.Errorf("%s: token %d is not above %d, of before the flush", r.Job, r.Token, last)
			}
			if r.Host == "c" && r.Tick.Sub(flushed) > 3*time.Second {
				t.Errorf("%s: tick %s ran on c, which is drained", r.Job, r.Tick)
			}
			if r.Job == "held" && r.Tick.Sub(flushed) > 3*time.Second {
				t.Errorf("tick %s of a paused job ran", r.Tick)
			}
			if r.Job == "j" {
				ticks[r.Tick] = true
			}
		}
		if len(ticks) < 9 {
			t.Errorf("%d ticks of j ran in the 10 s after the flush, want 9 or more", len(ticks))
		}
		s, err := f.led.Steering(t.Context())
		if err != nil || !s.Paused["held"].Until.After(time.Now()) || s.Drained["c"] != tester {
			t.Errorf("Steering = %v, %v; want the pause of held and the drain of c, by %v", s, err, tester)
		}
	})
}

// Redis is empty and its clock is behind: requests have smaller ids than those of before, and are
// taken all the same.
func TestMemory_RequestsToAServerThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		off := f.redisClock()
		f.start("h0", nil, job(t, "j", "0 0 1 1 *", f.handler(time.Millisecond)))
		time.Sleep(5 * time.Second)
		for i, back := range []time.Duration{0, time.Hour} {
			if back > 0 {
				f.redis.FlushAll()
			}
			off.Store(-int64(back))
			time.Sleep(10 * time.Second)
			if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if n := len(f.ran()); n != i+1 {
				t.Fatalf("%d runs, want %d: one for each request", n, i+1)
			}
		}
	})
}

// What is to be written back is refused: that is said once, and all else is written back.
func TestMemory_RestoreThatIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		log := &logBuffer{}
		f.start("h0", log.into, job(t, "j", "0 0 1 1 *", f.handler(time.Millisecond)))
		for _, name := range []string{"a", "b", "c"} {
			if _, err := f.led.Pause(t.Context(), name, 0, tester, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.led.DrainHost(t.Context(), "x", false, tester); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.redis.FlushAll()
		if err := f.redis.Set("{t}:job:b", "theirs"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		s, err := f.led.Steering(t.Context())
		if err != nil || len(s.Paused) != 2 || s.Drained["x"] != tester {
			t.Errorf("Steering() = %+v, %v, want the pauses of a and c and the drain of x", s, err)
		}
		for _, line := range []string{"redis forgot everything", "steering not written back"} {
			if n := log.count(line); n != 1 {
				t.Errorf("%q is said %d times, want once", line, n)
			}
		}
	})
}
