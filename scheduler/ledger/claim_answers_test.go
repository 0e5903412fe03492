package ledger

import (
	"testing"
	"time"
)

// Each answer once, in its plainest form. The policies behind them have files of their own.
func TestClaim_Answers(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a due tick is won, with a token of microseconds and the instant", func(t *rig) {
			d := t.want("won", t.claim(0))
			if us := d.Now.UnixMicro(); d.Fence < us-1e6 || d.Fence > us+1e6 {
				t.Errorf("Fence = %d, want Redis' clock in microseconds, about %d", d.Fence, us)
			}
			if !d.Won.Equal(d.Now) || d.Found != "" || d.Reruns != 0 || d.Epoch == "" {
				t.Errorf("Won, Found, Reruns, Epoch = %v, %q, %d, %q, want %v, none, 0, an id", d.Won, d.Found, d.Reruns, d.Epoch, d.Now)
			}
			t.wantHistory("0 running scheduled on a")
		})
		t.fresh("a tick that ran is decided, however short the run was", func(t *rig) {
			t.ran(0)
			if d := t.want("already", t.claim(0, by("b"))); !d.Base.Equal(t.tick(0)) {
				t.Errorf("Base = %v, want the cursor, %v", d.Base, t.tick(0))
			}
		})
		t.fresh("a tick before the cursor is decided", func(t *rig) {
			t.ran(0)
			t.want("already", t.claim(-1, by("b")))
		})
		t.fresh("a tick is early before its instant", func(t *rig) {
			if d := t.want("early", t.claim(1)); d.Wait <= 0 || d.Wait > time.Minute {
				t.Errorf("Wait = %v, want what is left of the minute", d.Wait)
			}
			t.wantHistory()
		})
		t.fresh("a splay delays it", func(t *rig) {
			d := t.want("early", t.claim(0, func(c *Claim) { c.Due = t.tick(0).Add(30 * time.Second) }))
			if d.Wait <= 25*time.Second || d.Wait > 30*time.Second {
				t.Errorf("Wait = %v, want just under 30 s", d.Wait)
			}
		})
		t.fresh("no splay makes it early", func(t *rig) {
			t.want("early", t.claim(1, func(c *Claim) { c.Due = t.tick(0) }))
		})
		t.fresh("past its deadline it is missed", func(t *rig) {
			late := func(c *Claim) { c.Deadline = t.tick(0).Add(time.Millisecond) }
			t.want("late missed", t.claim(0, late))
			t.want("already", t.claim(0))
			t.wantHistory("0 missed: no host claimed it before its start deadline")
		})
		for _, policy := range []string{"once", "all"} {
			t.fresh("under misfire "+policy+" it is late, and can still be run as a misfire", func(t *rig) {
				late := func(c *Claim) { c.Deadline = t.tick(0).Add(time.Millisecond) }
				t.want("late", t.claim(0, misfire(policy), late))
				t.wantHistory()
				t.want("won", t.claim(0, misfire(policy), kind(Misfire)))
				t.wantHistory("0 running misfire on a")
			})
		}
		t.fresh("a drained host claims nothing, the others do", func(t *rig) {
			t.do("HSET", "{t}:drain", "a", "1")
			t.want("drained", t.claim(0))
			t.want("won", t.claim(0, by("b")))
		})
		t.fresh("a cursor ahead of the clock is not believed", func(t *rig) {
			t.ran(-1)
			t.do("HSET", "{t}:job:j", "tick", t.tick(60).UnixMilli())
			if d := t.want("future", t.claim(0)); !d.Base.Equal(t.tick(60)) {
				t.Errorf("Base = %v, want the cursor, %v", d.Base, t.tick(60))
			}
			t.do("HSET", "{t}:job:j", "tick", t.now().UnixMilli()+500) // as far as clocks may differ
			t.want("already", t.claim(0))
		})
	})
}

func TestClaim_Paused(t *testing.T) {
	onEach(t, func(t *rig) {
		pause := func(key string, from, until any) { t.do("HSET", key, "pause_from", from, "pause_until", until) }
		t.fresh("a paused job is not claimed until the pause ends", func(t *rig) {
			until := t.now().Add(time.Hour)
			pause("{t}:job:j", t.tick(-1).UnixMilli(), until.UnixMilli())
			if d := t.want("paused", t.claim(0)); d.Base.UnixMilli() != until.UnixMilli() {
				t.Errorf("Base = %v, want the pause's end, %v", d.Base, until)
			}
			t.wantHistory()
		})
		t.fresh("a pause without end", func(t *rig) {
			t.do("HSET", "{t}:job:j", "pause_from", t.tick(-1).UnixMilli())
			t.want("paused", t.claim(0))
		})
		t.fresh("a pause that has not begun does not count", func(t *rig) {
			pause("{t}:job:j", t.tick(1).UnixMilli(), t.tick(2).UnixMilli())
			t.want("won", t.claim(0))
		})
		t.fresh("of two pauses the longer counts", func(t *rig) {
			pause("{t}:job:j", t.tick(-1).UnixMilli(), t.tick(9).UnixMilli())
			t.do("HSET", "{t}:paused", "from", t.tick(-1).UnixMilli(), "until", t.tick(5).UnixMilli())
			if d := t.want("paused", t.claim(0)); !d.Base.Equal(t.tick(9)) {
				t.Errorf("Base = %v, want %v", d.Base, t.tick(9))
			}
		})
		t.fresh("early and drained come before and after it", func(t *rig) {
			t.do("HSET", "{t}:paused", "from", t.tick(-1).UnixMilli())
			t.do("HSET", "{t}:drain", "a", "1")
			t.want("early", t.claim(1))
			t.want("paused", t.claim(0))
			t.do("DEL", "{t}:paused")
			t.want("drained", t.claim(0))
		})
	})
}

func TestClaim_Many(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("one pipeline, each its own answer, in order", func(t *rig) {
			job := func(name string) func(*Claim) { return func(c *Claim) { c.Job, c.Lock = name, name } }
			got := t.led.Claim(t.ctx(), []Claim{t.claim(0, job("x")), t.claim(1, job("y")), t.claim(0, job("x"), by("b")), t.claim(0, job("z"))})
			for i, want := range []Answer{Won, Early, Already, Won} {
				if got[i].Err != nil || got[i].Answer != want {
					t.Errorf("Claim()[%d] = %q, %v, want %q", i, got[i].Answer, got[i].Err, want)
				}
			}
		})
		t.fresh("none", func(t *rig) {
			if got := t.led.Claim(t.ctx(), nil); len(got) != 0 {
				t.Errorf("Claim(none) = %v, want nothing", got)
			}
		})
	})
}
