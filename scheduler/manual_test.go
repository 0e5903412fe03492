package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"rota/scheduler/ledger"
)

// A manual run decides no tick of the schedule: what lies before it and is not decided yet is
// accounted for as if it had never been.
func TestManual_RunDecidesNoTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		f.start("h0", nil, j)
		time.Sleep(2*time.Minute + 30*time.Second)
		from := time.Now().Truncate(time.Minute)
		if _, err := f.led.Pause(t.Context(), "j", 0, tester, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if ok, err := f.led.Resume(t.Context(), "j", tester); !ok || err != nil {
			t.Fatalf("Resume = %v, %v", ok, err)
		}
		time.Sleep(2 * time.Minute)
		runs, others := f.accounts(j, from, time.Now().Add(-time.Minute))
		if runs < 3 || others != 5 {
			t.Errorf("%d runs of ticks and %d without one, want 3 or more and the 5 of the pause", runs, others)
		}
		if n := len(f.ran()); n != runs+1 {
			t.Errorf("%d runs of handlers, want %d and the manual one", n, runs)
		}
	})
}

// Somebody asks for a run while a tick waits for its splay to be over: both run.
func TestManual_RunLeavesATickWithSplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(time.Millisecond))
		j.Splay = 30 * time.Minute
		j.StartDeadline = 20 * time.Minute
		f.start("h0", nil, j)
		tick := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		time.Sleep(time.Until(tick.Add(j.Delay() - time.Second)))
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if n := f.ticks("j")[tick]; n != 1 {
			t.Errorf("the tick of %s ran %d times beside a manual run a second before its splay was over, want once", tick, n)
		}
	})
}
