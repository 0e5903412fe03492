package scheduler

import (
	"fmt"
	"testing"
	"time"

	"rota/scheduler/ledger"
)

func TestOwed_WhatARecordHasLeft(t *testing.T) {
	j := job(t, "j", "* * * * *", nil)
	tick := func(minute int) time.Time { return at("2026-01-01 12:00:00").Add(time.Duration(minute) * time.Minute) }
	held := ledger.Standing{Cursor: tick(3), Run: "r", RunTick: tick(3), Again: true, Left: 20 * time.Second}
	crashed := ledger.Standing{Cursor: tick(4), Run: "r", RunTick: tick(3), Again: true, Crashed: true}
	with := func(st ledger.Standing, change func(*ledger.Standing)) ledger.Standing { change(&st); return st }
	for _, c := range []struct {
		name    string
		onCrash OnCrash
		st      ledger.Standing
		want    time.Time
		wait    time.Duration
		rerun   string
	}{
		{"nothing", CrashRerun, ledger.Standing{Cursor: tick(3)}, time.Time{}, 0, ""},
		{"a tick waits", CrashSkip, ledger.Standing{Cursor: tick(3), Waiting: tick(3)}, tick(3), 0, ""},
		{"a tick was given back", CrashSkip, ledger.Standing{Cursor: tick(3), Open: tick(3)}, tick(3), 0, ""},
		{"one was given back, and a newer one waits", CrashSkip, ledger.Standing{Cursor: tick(3), Open: tick(2), Waiting: tick(3)}, tick(2), 0, ""},
		{"a run goes on", CrashRerun, held, time.Time{}, 20 * time.Second, ""},
		{"a run goes on, and is not run again", CrashSkip, held, time.Time{}, 0, ""},
		{"a rerun goes on", CrashRerun, with(held, func(s *ledger.Standing) { s.Again = false }), time.Time{}, 0, ""},
		{"a run ended with its host", CrashRerun, crashed, tick(3), 0, "r"},
		{"a run ended with its host, and is not run again", CrashSkip, crashed, time.Time{}, 0, ""},
		{"a rerun ended with its host", CrashRerun, with(crashed, func(s *ledger.Standing) { s.Again = false }), time.Time{}, 0, ""},
		{"a newer tick waits", CrashRerun, with(crashed, func(s *ledger.Standing) { s.Waiting = tick(4) }), tick(4), 0, ""},
	} {
		j.OnCrash = c.onCrash
		d, wait := owed(&j, 7, &c.st, c.st.Cursor, tick(4))
		if d.none() != c.want.IsZero() || !d.due.Tick.Equal(c.want) || wait != c.wait || d.rerun != c.rerun {
			t.Errorf("%s: owed = tick %s for run %q, wait %s; want %s, %q, %s", c.name, d.due.Tick, d.rerun, wait, c.want, c.rerun, c.wait)
		}
		if !d.none() && (d.kind != ledger.Scheduled || !d.due.Prev.Equal(c.want.Add(-time.Minute)) || d.due.Index != 7) {
			t.Errorf("%s: owed = %+v, want the tick as the plan has it", c.name, d)
		}
	}
}

// What is caught up, and by what claim: minutes of a job of every minute, whose ticks may start 30 s late.
func TestOwed_CatchesUp(t *testing.T) {
	tick := func(minute int) time.Time { return at("2026-01-01 12:00:00").Add(time.Duration(minute) * time.Minute) }
	for _, c := range []struct {
		name    string
		misfire Misfire
		base    int // the newest tick decided
		now     string
		want    string // tick, kind, and until when; "": nothing
	}{
		{"skip: never", MisfireSkip, 0, "12:09:45", ""},
		{"once: the newest, until the next one", MisfireOnce, 0, "12:09:45", "12:09 misfire 12:10"},
		{"once: the newest is in time, and the older ones are not caught up", MisfireOnce, 0, "12:09:15", ""},
		{"once: the newest is decided", MisfireOnce, 9, "12:09:45", ""},
		{"all: the newest, and the claim says what is older", MisfireAll, 0, "12:09:45", "12:09 misfire -"},
		{"all: the newest is in time, an older one is not decided", MisfireAll, 7, "12:09:15", "12:09 scheduled 12:09:30"},
		{"all: the newest is in time, the one before it is decided", MisfireAll, 8, "12:09:15", "12:09 scheduled 12:09:30"},
		{"all: the newest is decided", MisfireAll, 9, "12:09:15", ""},
		{"all: the newest is late, the one before it is decided", MisfireAll, 8, "12:09:31", "12:09 misfire -"},
	} {
		j := job(t, "j", "* * * * *", nil)
		j.Misfire = c.misfire
		d, _ := owed(&j, 0, &ledger.Standing{Cursor: tick(c.base)}, tick(c.base), at("2026-01-01 "+c.now))
		if got := claimOf(d); got != c.want {
			t.Errorf("%s: owed = %q, want %q", c.name, got, c.want)
		}
		if !d.none() && !d.late {
			t.Errorf("%s: owed = %+v, want it spread", c.name, d)
		}
	}
	j := job(t, "j", "* * * * *", nil)
	j.Misfire = MisfireAll
	for overlap, want := range map[Overlap]string{OverlapSkip: "", OverlapReplace: "", OverlapAllow: "12:09 misfire -"} {
		j.Overlap = overlap
		d, wait := owed(&j, 0, &ledger.Standing{Cursor: tick(7), Left: 5 * time.Second}, tick(7), at("2026-01-01 12:09:45"))
		if got := claimOf(d); got != want || want == "" && wait != 5*time.Second {
			t.Errorf("all, %s: a run goes on: owed = %q, wait %s, want %q, or to wait for the run", overlap, got, wait, want)
		}
	}
	for _, misfire := range []Misfire{MisfireSkip, MisfireOnce, MisfireAll} {
		j.Misfire = misfire
		d, _ := owed(&j, 0, &ledger.Standing{Cursor: tick(9), Open: tick(9)}, tick(9), at("2026-01-01 12:09:15"))
		if got := claimOf(d); got != "12:09 scheduled 12:09:30" {
			t.Errorf("%s: a tick given back in time: owed = %q", misfire, got)
		}
		d, _ = owed(&j, 0, &ledger.Standing{Cursor: tick(9), Open: tick(9)}, tick(9), at("2026-01-01 12:09:45"))
		want := map[Misfire]string{MisfireSkip: "12:09 scheduled 12:09:30", MisfireOnce: "12:09 misfire 12:10", MisfireAll: "12:09 misfire -"}
		if got := claimOf(d); got != want[misfire] {
			t.Errorf("%s: a tick given back, late: owed = %q, want %q", misfire, got, want[misfire])
		}
		d, _ = owed(&j, 0, &ledger.Standing{Cursor: tick(10), Open: tick(9)}, tick(10), at("2026-01-01 12:10:01"))
		want[MisfireOnce] = ""
		if got := claimOf(d); got != want[misfire] {
			t.Errorf("%s: a tick given back, after the next one: owed = %q, want %q", misfire, got, want[misfire])
		}
	}
}

func claimOf(d debt) string {
	if d.none() {
		return ""
	}
	until := "-"
	switch dl := d.due.Deadline; {
	case dl.IsZero():
	case dl.Second() == 0:
		until = dl.Format("15:04")
	default:
		until = dl.Format("15:04:05")
	}
	return fmt.Sprintf("%s %s %s", d.due.Tick.Format("15:04"), d.kind, until)
}

func TestOldest_IsTheFirstUndecidedButNoneBeforeBack(t *testing.T) {
	j := job(t, "j", "* * * * *", nil)
	j.Misfire = MisfireAll
	for _, c := range []struct{ decided, back, now, want string }{
		{"12:01:00", "11:00:00", "12:09:45", "12:02 misfire -"},
		{"12:01:30", "11:00:00", "12:09:45", "12:02 misfire -"}, // a pause ended then
		{"12:01:00", "12:05:00", "12:09:45", "12:05 misfire -"},
		{"12:08:00", "11:00:00", "12:09:15", "12:09 scheduled 12:09:30"},
	} {
		d, ok := oldest(&j, 0, at("2026-01-01 "+c.decided), at("2026-01-01 "+c.back), at("2026-01-01 "+c.now))
		if got := claimOf(d); !ok || got != c.want {
			t.Errorf("oldest after %s, from %s on, at %s = %q, %t, want %q", c.decided, c.back, c.now, got, ok, c.want)
		}
	}
}

func TestBackOf_IsTheHundredthLast(t *testing.T) {
	j := job(t, "j", "0 * * * *", nil)
	if got, want := backOf(&j, at("2026-01-05 04:00:00")), at("2026-01-01 01:00:00"); !got.Equal(want) {
		t.Errorf("backOf = %s, want %s: 99 hours before", got, want)
	}
}

func TestSpread_IsAHashOfTheNameWithinItsBounds(t *testing.T) {
	for _, c := range []struct {
		name             string
		gap, until, most time.Duration
	}{
		{"a minute at most", 24 * time.Hour, 20 * time.Hour, time.Minute},
		{"half the gap", time.Minute, 59 * time.Second, 29500 * time.Millisecond},
		{"half of what is left until the next tick", time.Hour, 10 * time.Second, 5 * time.Second},
		{"a job that is due once", 0, 0, time.Minute},
	} {
		longest := time.Duration(0)
		for i := range 1000 {
			name := fmt.Sprintf("job-%d", i)
			d := Spread(name, c.gap, c.until)
			if d < 0 || d > c.most || d != Spread(name, c.gap, c.until) {
				t.Fatalf("%s: spread = %s, want the same each time, within %s", c.name, d, c.most)
			}
			longest = max(longest, d)
		}
		if longest < c.most*9/10 {
			t.Errorf("%s: the longest of 1000 is %s, want close to %s", c.name, longest, c.most)
		}
	}
}
