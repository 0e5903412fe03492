package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// A reload of the same table every 10 s keeps every phase (Y03).
func TestReload_KeepsPhases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		table := []Job{
			job(t, "every", "@every 1m", f.handler(time.Second)),
			job(t, "minutely", "* * * * *", f.handler(time.Second)),
		}
		h := f.start("h0", nil, table...)
		time.Sleep(3 * time.Second)
		for range 30 {
			time.Sleep(10 * time.Second)
			if err := h.Reload(table, "table"); err != nil {
				t.Fatal(err)
			}
		}
		for _, j := range table {
			if runs, others := f.accounts(j, time.Now().Add(-5*time.Minute), time.Now().Add(-time.Minute)); runs != 5 || others != 0 {
				t.Errorf("%s: %d runs and %d other entries in five minutes of reloads, want 5 and 0", j.Name, runs, others)
			}
		}
	})
}

// A reload 200 ms before the tick of 200 jobs skips none and doubles none (L22).
func TestReload_JustBeforeATick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var table []Job
		for i := range 200 {
			table = append(table, job(t, names(200)[i], "* * * * *", f.handler(time.Second)))
		}
		h := f.start("host", nil, table...)
		time.Sleep(time.Minute - 200*time.Millisecond)
		// Every command changes, no schedule does.
		next := make([]Job, len(table))
		copy(next, table)
		for i := range next {
			next[i].Definition = "other"
		}
		if err := h.Reload(next, "next"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, j := range table {
			if e := f.history(j.Name); len(e) != 1 || e[0].Outcome != string(jobs.Succeeded) || e[0].Definition != "other" {
				t.Errorf("%s: %d entries, want one that succeeded by the new definition", j.Name, len(e))
			}
		}
	})
}

// A running run is not touched, also if its job is gone; a new job is due from now on.
func TestReload_RunsGoOnAndNewJobsStartFromNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := job(t, "old", "* * * * *", f.handler(30*time.Second))
		h := f.start("h0", nil, old)
		time.Sleep(65 * time.Second)
		fresh := job(t, "fresh", "*/2 * * * *", f.handler(time.Second))
		fresh.StartDeadline = 2 * time.Minute
		fresh.ScheduleHash = "other"
		time.Sleep(5 * time.Second)
		if err := h.Reload([]Job{fresh}, "next"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		if e := f.history("old"); len(e) != 1 || e[0].Outcome != string(jobs.Succeeded) {
			t.Errorf("the run of a job that was removed: %v, want it succeeded", e)
		}
		if f.redis.Exists("{t}:lock:old") {
			t.Error("the lock of the removed job is still held")
		}
		if e := f.history("fresh"); len(e) != 0 {
			t.Errorf("a job loaded at 00:01:10 ran for %s, before it was there", e[0].Tick)
		}
		time.Sleep(time.Minute)
		if e := f.history("fresh"); len(e) != 1 {
			t.Errorf("the new job has %d entries after its first tick, want 1", len(e))
		}
	})
}

// An edited schedule is a new one: its ticks before the edit are not due, so they neither run
// nor count as missed.
func TestReload_EditedScheduleLooksForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "10 * * * *", f.handler(time.Second))
		h := f.start("h0", nil, j)
		time.Sleep(20 * time.Minute) // it ran at 00:10
		edited := job(t, "j", "15 * * * *", f.handler(time.Second))
		edited.ScheduleHash = "edited"
		edited.StartDeadline = time.Hour
		if err := h.Reload([]Job{edited}, "next"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var got []string
		for _, e := range f.history("j") {
			got = append(got, e.Tick.Format("15:04 ")+e.Outcome)
		}
		want := []string{"00:10 succeeded", "01:15 succeeded"}
		if !slices.Equal(got, want) {
			t.Errorf("history is %q, want %q", got, want)
		}
	})
}

func TestReload_BadTableChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		h := f.start("h0", nil, j)
		time.Sleep(3 * time.Second)
		if err := h.Reload([]Job{j, j}, "next"); err == nil {
			t.Fatal("Reload took a table with two jobs of one name")
		}
		time.Sleep(time.Minute)
		if n := len(f.history("j")); n != 1 {
			t.Errorf("the old table ran %d ticks, want 1", n)
		}
		hosts, err := f.led.Hosts(t.Context())
		if err != nil || len(hosts) != 1 || hosts[0].Table != "table" {
			t.Errorf("Hosts = %v, %v; want the old table", hosts, err)
		}
	})
}

// Two hosts with different schedules of a job, in a rolling deploy, neither run a tick twice
// nor run one for the past.
func TestReload_RollingDeployOfAnEditedSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := job(t, "j", "*/2 * * * *", f.handler(time.Second))
		edited := job(t, "j", "* * * * *", f.handler(time.Second))
		edited.ScheduleHash = "edited"
		a := f.start("a", nil, old)
		f.start("b", nil, old)
		time.Sleep(5*time.Minute + 10*time.Second)
		if err := a.Reload([]Job{edited}, "next"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		seen := map[time.Time]bool{}
		for _, e := range f.history("j") {
			if e.Run == "" || e.Kind == ledger.Manual {
				continue
			}
			if seen[e.Tick] {
				t.Errorf("tick %s ran twice", e.Tick)
			}
			seen[e.Tick] = true
			if e.Lag() > 5*time.Second {
				t.Errorf("tick %s ran %s late", e.Tick, e.Lag())
			}
		}
		if len(seen) < 7 {
			t.Errorf("%d ticks ran, want at least the seven of both tables", len(seen))
		}
	})
}
