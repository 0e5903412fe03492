package ledger

import (
	"strings"
	"testing"
	"time"
)

// back is the oldest tick that misfire "all" still runs.
func (r *rig) back(n int) func(*Claim) {
	return func(c *Claim) { c.Misfire, c.Back = "all", r.tick(n) }
}

func TestClaim_Gap(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("ticks nobody claimed are one range, whatever the answer", func(t *rig) {
			t.ran(-9)
			t.ran(-5)
			late := func(c *Claim) { c.Deadline = c.Tick.Add(time.Millisecond) }
			t.want("late missed", t.claim(-3, late))
			g := t.win(t.claim(-2))
			t.want("held skipped", t.claim(0))
			t.end(g, "succeeded")
			t.wantHistory(
				"-9 succeeded scheduled on a",
				"-8…-6 (3) missed: no host claimed it in time",
				"-5 succeeded scheduled on a",
				"-4 missed: no host claimed it in time",
				"-3 missed: no host claimed it before its start deadline",
				"-2 succeeded scheduled on a",
				"-1 missed: no host claimed it in time",
				"0 skipped: the run before is still going on a")
		})
		t.fresh("once: the newest runs late, the older are missed", func(t *rig) {
			t.ran(-5)
			late := func(c *Claim) { c.Deadline = c.Tick.Add(time.Millisecond) }
			t.want("late", t.claim(-1, misfire("once"), late))
			t.want("already", t.claim(-2, misfire("once"), late))
			t.want("won", t.claim(-1, misfire("once"), kind(Misfire)))
			t.wantHistory("-5 succeeded scheduled on a", "-4…-2 (3) missed", "-1 running misfire on a")
		})
		t.fresh("a record is made by the first claim; what was before is not its", func(t *rig) {
			t.ran(0)
			t.wantHistory("0 succeeded scheduled on a")
		})
		t.fresh("a job that was never decided misses what was due since", func(t *rig) {
			t.do("SET", "{t}:epoch", "1-x") // Redis has not forgotten
			since := func(c *Claim) { c.Since = t.tick(-3).Add(time.Second) }
			t.win(t.claim(0, since))
			t.wantHistory("-2…-1 (2) missed", "0 running scheduled on a")
		})
		t.fresh("nothing counts: no entry, and the cursor moves", func(t *rig) {
			t.ran(-5)
			t.win(t.claim(0, func(c *Claim) { c.Count = nil }))
			t.wantHistory("-5 succeeded scheduled on a", "0 running scheduled on a")
		})
		t.fresh("a tick that waits, is open or is to be rerun leaves no gap behind it", func(t *rig) {
			g := t.win(t.claim(-3, overlap("queue")))
			t.want("held waiting", t.claim(-2, overlap("queue")))
			t.end(g, "succeeded")
			t.ran(-2, overlap("queue"))
			t.wantHistory("-3 succeeded scheduled on a", "-2 succeeded scheduled on a")
		})
	})
}

func TestClaim_Behind(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("oldest first, in order, each once", func(t *rig) {
			t.ran(-4)
			for n := -3; n <= -1; n++ {
				if d := t.want("behind", t.claim(0, t.back(-100))); !d.Base.Equal(t.tick(n - 1)) {
					t.Errorf("Base = %v, want tick %d", d.Base, n-1)
				}
				t.ran(n, t.back(-100), kind(Misfire))
			}
			t.ran(0, t.back(-100))
			t.wantHistory("-4 succeeded scheduled on a", "-3 succeeded misfire on a", "-2 succeeded misfire on a",
				"-1 succeeded misfire on a", "0 succeeded scheduled on a")
		})
		t.fresh("what is older than that is a range", func(t *rig) {
			t.ran(-9)
			t.want("behind", t.claim(0, t.back(-3)))
			t.ran(-3, t.back(-3), kind(Misfire))
			t.wantHistory("-9 succeeded scheduled on a", "-8…-4 (5) missed", "-3 succeeded misfire on a")
			t.want("behind", t.claim(0, t.back(-3)))
		})
		t.fresh("only the newest is left", func(t *rig) {
			t.ran(-9)
			t.ran(0, t.back(0))
			t.wantHistory("-9 succeeded scheduled on a", "-8…-1 (8) missed", "0 succeeded scheduled on a")
		})
	})
}

// A pause cuts a gap: what lies in it was skipped, what lies before it was missed.
func TestClaim_AfterPause(t *testing.T) {
	onEach(t, func(t *rig) {
		half := 30 * time.Second
		pauses := map[string]func(t *rig, from, until time.Time){
			"of the job": func(t *rig, from, until time.Time) {
				t.do("HSET", "{t}:job:j", "pause_from", from.UnixMilli(), "pause_until", until.UnixMilli())
			},
			"of the fleet": func(t *rig, from, until time.Time) {
				t.do("HSET", "{t}:paused", "from", from.UnixMilli(), "until", until.UnixMilli())
			},
		}
		for what, pause := range pauses {
			t.fresh("a pause "+what+" is one skipped range", func(t *rig) {
				t.ran(-9)
				pause(t, t.tick(-7).Add(half), t.tick(-3).Add(half))
				t.win(t.claim(0))
				t.wantHistory("-9 succeeded scheduled on a", "-8…-7 (2) missed: no host claimed it in time", "-6…-3 (4) skipped: paused",
					"-2…-1 (2) missed: no host claimed it in time", "0 running scheduled on a")
			})
			t.fresh("a pause "+what+" covers the tick at its beginning, not the one at its end", func(t *rig) {
				t.ran(-9)
				pause(t, t.tick(-7), t.tick(-3))
				t.want("already", t.claim(-4))
				t.ran(-3)
				t.win(t.claim(0))
				t.wantHistory("-9 succeeded scheduled on a", "-8 missed", "-7…-4 (4) skipped: paused", "-3 succeeded scheduled on a",
					"-2…-1 (2) missed", "0 running scheduled on a")
			})
			t.fresh("a pause "+what+" makes ticks inside it not due, under misfire all too", func(t *rig) {
				t.ran(-9)
				pause(t, t.tick(-7).Add(half), t.tick(-2).Add(half))
				t.want("already", t.claim(-3, t.back(-100)))
				if d := t.want("behind", t.claim(0, t.back(-100))); d.Base.Before(t.tick(-2)) {
					t.Errorf("Base = tick %d, want the pause's end", t.nth(d.Base))
				}
				t.ran(-1, t.back(-100), kind(Misfire))
				t.ran(0, t.back(-100))
				t.wantHistory("-9 succeeded scheduled on a", "-8…-7 (2) missed", "-6…-2 (5) skipped", "-1 succeeded misfire on a", "0 succeeded scheduled on a")
			})
		}
		t.fresh("two pauses that overlap count each tick once", func(t *rig) {
			t.ran(-9)
			pauses["of the job"](t, t.tick(-8).Add(half), t.tick(-4).Add(half))
			pauses["of the fleet"](t, t.tick(-6).Add(half), t.tick(-2).Add(half))
			t.win(t.claim(0))
			t.wantHistory("-9 succeeded scheduled on a", "-8 missed", "-7…-4 (4) skipped", "-3…-2 (2) skipped", "-1 missed", "0 running scheduled on a")
		})
		t.fresh("pauses of the fleet that ended long ago, one after the other", func(t *rig) {
			t.ran(-9)
			for _, n := range []int{-8, -6, -4} {
				t.pauseFor(0, ada, AllJobs)
				t.resume(AllJobs, true)
				pauses["of the fleet"](t, t.tick(n), t.tick(n+1))
			}
			t.pauseFor(0, bob, AllJobs) // and a fourth, without a tick in it
			t.resume(AllJobs, true)
			pauses["of the fleet"](t, t.tick(-1).Add(half), t.tick(-1).Add(half+time.Second))
			t.win(t.claim(0))
			t.wantHistory("-9 succeeded scheduled on a", "-8 skipped: paused by ada: upgrade", "-7 missed", "-6 skipped: paused by ada: upgrade",
				"-5 missed", "-4 skipped: paused by ada: upgrade", "-3…-1 (3) missed", "0 running scheduled on a")
			for range 20 {
				t.pauseFor(0, bob, AllJobs)
				t.resume(AllJobs, true)
			}
			if text, _ := t.do("HGET", "{t}:paused", "before").(string); strings.Count(text, `"from"`) != 8 {
				t.Errorf("the fleet's hash remembers %s, want eight pauses", text)
			}
		})
		t.fresh("what nobody can read of the fleet's pauses is none", func(t *rig) {
			t.ran(-1)
			t.do("HSET", "{t}:paused", "from", 1, "until", 2, "before", t.tick(9).Format("20060102150405")+"|[7")
			t.win(t.claim(0))
		})
		t.fresh("a pause without a tick in it leaves no entry", func(t *rig) {
			t.ran(-1)
			pauses["of the job"](t, t.tick(-1).Add(half), t.tick(-1).Add(half+time.Second))
			t.win(t.claim(0))
			t.wantHistory("-1 succeeded scheduled on a", "0 running scheduled on a")
		})
		t.fresh("a job that was paused before its first tick", func(t *rig) {
			t.do("SET", "{t}:epoch", "1-x")
			pauses["of the job"](t, t.tick(-4), t.tick(-2).Add(half))
			since := func(c *Claim) { c.Since = t.tick(-5).Add(half) }
			t.win(t.claim(0, since))
			t.wantHistory("-4…-2 (3) skipped", "-1 missed", "0 running scheduled on a")
		})
		t.fresh("what waits through a pause still runs after it", func(t *rig) {
			g := t.win(t.claim(-4, overlap("queue")))
			t.want("held waiting", t.claim(-3, overlap("queue")))
			pauses["of the job"](t, t.tick(-3).Add(half), t.tick(-1).Add(half))
			t.end(g, "succeeded")
			t.ran(-3, overlap("queue"))
			t.win(t.claim(0))
			t.wantHistory("-4 succeeded scheduled on a", "-3 succeeded scheduled on a", "-2…-1 (2) skipped", "0 running scheduled on a")
		})
	})
}
