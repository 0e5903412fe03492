package ledger

import (
	"testing"
	"time"
)

func since(at time.Time) func(*Claim)   { return func(c *Claim) { c.Since = at } }
func schedule(hash string) func(*Claim) { return func(c *Claim) { c.ScheduleHash = hash } }

// Ticks from before a job, or this version of its schedule, are not due.
func TestClaim_Since(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a new job does not fire for the past", func(t *rig) {
			t.want("already", t.claim(0, since(t.now())))
			t.wantHistory()
		})
		t.fresh("the first host to load it counts, for all that have the same schedule", func(t *rig) {
			t.want("already", t.claim(-5, since(t.tick(-2).Add(time.Second))))
			if s := t.state(); !s.Since.Equal(t.tick(-2).Add(time.Second)) {
				t.Errorf("State().Since = %v, want what the claim said", s.Since)
			}
			t.want("won", t.claim(0, by("b"), since(t.now()))) // b was restarted just now
		})
		t.fresh("an edited schedule does not fire for the past", func(t *rig) {
			t.ran(-5)
			t.want("already", t.claim(-1, schedule("s2"), since(t.now())))
			t.want("already", t.claim(0, schedule("s2"), since(t.now())))
			t.wantHistory("-5 succeeded scheduled on a")
		})
		t.fresh("nor are its ticks from before the edit missed", func(t *rig) {
			t.ran(-5)
			t.win(t.claim(0, schedule("s2"), since(t.tick(-2).Add(time.Second))))
			t.wantHistory("-5 succeeded scheduled on a", "-1 missed", "0 running scheduled on a")
		})
		t.fresh("one that lies ahead guards nothing but what is past", func(t *rig) {
			ahead := since(t.tick(120)) // Redis' clock ran ahead when the host loaded the schedule
			t.want("already", t.claim(0, ahead))
			if s := t.state(); !t.near(s.Since, 0) {
				t.Errorf("State().Since = %v, want now", s.Since)
			}
			time.Sleep(2 * time.Millisecond)
			next := t.now().Truncate(time.Millisecond)
			t.win(t.claim(0, ahead, func(c *Claim) { c.Tick, c.Prev = next, t.tick(0) }))
		})
		t.fresh("a reset takes back one that lies ahead, and the next tick runs", func(t *rig) {
			t.ran(-1)
			t.do("HSET", "{t}:job:j", "tick", t.tick(120).UnixMilli(), "since", t.tick(120).UnixMilli())
			if _, ok, err := t.led.Reset(t.ctx(), "j"); !ok || err != nil {
				t.Fatalf("Reset() = %t, %v, want true", ok, err)
			}
			if s := t.state(); !t.near(s.Since, 0) {
				t.Errorf("State().Since = %v, want now", s.Since)
			}
			time.Sleep(2 * time.Millisecond)
			next := t.now().Truncate(time.Millisecond)
			t.win(t.claim(0, since(t.tick(120)), func(c *Claim) { c.Tick, c.Prev = next, t.tick(0) }))
		})
		t.fresh("another command is not another schedule", func(t *rig) {
			t.ran(-2)
			t.win(t.claim(0, since(t.now()), func(c *Claim) { c.Definition = "d2" }))
			t.wantHistory("-2 succeeded scheduled on a", "-1 missed", "0 running scheduled on a")
		})
	})
}

// In a rolling deploy hosts with the old and the new table claim in turn.
func TestClaim_SinceOfTwoTables(t *testing.T) {
	onEach(t, func(t *rig) {
		older := func(c *Claim) { c.ScheduleHash = "s1" } // loaded long ago
		newer := func(c *Claim) { c.ScheduleHash, c.Host, c.Since = "s2", "b", t.tick(-2).Add(time.Second) }
		t.ran(-4, older)
		t.want("already", t.claim(-3, newer)) // not due by its own table
		t.ran(-3, older)
		t.want("already", t.claim(-2, newer))
		t.ran(-2, older)
		t.ran(-1, newer)
		t.want("already", t.claim(-1, older))
		t.ran(0, older)
		t.want("already", t.claim(0, newer))
		t.wantHistory("-4 succeeded scheduled on a", "-3 succeeded scheduled on a", "-2 succeeded scheduled on a",
			"-1 succeeded scheduled on b", "0 succeeded scheduled on a")
	})
}

// What a daemon knows decided carries the cursor over a Redis that forgot.
func TestClaim_KnownAfterFlush(t *testing.T) {
	onEach(t, func(t *rig) {
		known := func(at time.Time) func(*Claim) { return func(c *Claim) { c.Known = at } }
		flush := func(t *rig) { t.do("FLUSHALL"); t.do("SET", "{t}:epoch", "1-x") }
		t.fresh("a tick that ran is not run again", func(t *rig) {
			t.ran(0)
			t.do("FLUSHALL")
			t.want("already", t.claim(0, by("b"), known(t.tick(0))))
			t.want("already", t.claim(0, by("c"))) // nor by a host that knows nothing
		})
		t.fresh("what it does not know decided was missed", func(t *rig) {
			t.ran(-3)
			flush(t)
			t.win(t.claim(0, known(t.tick(-3))))
			t.wantHistory("-2…-1 (2) missed", "0 running scheduled on a")
		})
		t.fresh("it never moves the cursor back", func(t *rig) {
			t.ran(0)
			t.want("already", t.claim(-1, known(t.tick(-5))))
			if s := t.state(); !s.Cursor.Equal(t.tick(0)) {
				t.Errorf("State().Cursor = %v, want tick 0", s.Cursor)
			}
		})
		t.fresh("a host whose own clock ran ahead is not believed", func(t *rig) {
			t.want("won", t.claim(0, known(t.tick(5))))
		})
		t.fresh("up to a second ahead it is", func(t *rig) {
			t.want("already", t.claim(0, func(c *Claim) { c.Known = t.now().Add(500 * time.Millisecond) }))
		})
		t.fresh("who knows nothing makes no history of what Redis forgot, under misfire all neither", func(t *rig) {
			t.ran(-3)
			t.do("FLUSHALL")
			t.want("late", t.claim(0, t.back(-100), func(c *Claim) { c.Deadline = t.tick(0) })) // writes since
			t.ran(0, t.back(-100), kind(Misfire))
			t.wantHistory("0 succeeded misfire on a")
		})
	})
}

func TestClaim_Epoch(t *testing.T) {
	onEach(t, func(t *rig) {
		first := t.ask(t.claim(1)).Epoch
		f, err := t.led.Beat(t.ctx(), Host{Name: "a"}, "mine", "0")
		if err != nil || first == "" || f.Epoch != first {
			t.Fatalf("Beat().Epoch = %q, %v, want the claim's %q", f.Epoch, err, first)
		}
		g := t.win(t.claim(0))
		if got := t.led.Renew(t.ctx(), []*Grant{g})[0].Epoch; got != first {
			t.Errorf("Renew().Epoch = %q, want %q", got, first)
		}
		t.do("FLUSHALL")
		if got := t.led.Renew(t.ctx(), []*Grant{g})[0]; got.Renewed || got.Epoch != "" {
			t.Errorf("Renew() after FLUSHALL = %+v, want not renewed and no epoch", got)
		}
		if got := t.ask(t.claim(1)).Epoch; got == "" || got == first {
			t.Errorf("Epoch after FLUSHALL = %q, want another than %q", got, first)
		}
	})
}
