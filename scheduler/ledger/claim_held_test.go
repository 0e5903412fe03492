package ledger

import (
	"testing"
	"time"
)

// The lock is held by the job's own run before: what each policy makes of the next ticks.
func TestClaim_HeldByOwnJob(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("skip: consecutive ticks are one range that names the holder", func(t *rig) {
			g := t.win(t.claim(-3))
			for n := -2; n <= 0; n++ {
				d := t.want("held skipped", t.claim(n, by("b")))
				if d.Holder != "a" || d.HolderJob != "j" || d.HolderRun != g.Claim.Run || d.Fence != g.Fence ||
					!d.HolderFrom.Equal(g.Won) || d.Left <= 0 || d.Left > time.Minute {
					t.Errorf("Claim() = %+v, want host a, job j, run %s, token %d, since %v", d, g.Claim.Run, g.Fence, g.Won)
				}
			}
			t.wantHistory("-3 running scheduled on a", "-2…0 (3) skipped: the run before is still going on a")
			t.end(g, "succeeded")
			t.want("already", t.claim(0))
		})
		t.fresh("skip: another run of the holder begins another range", func(t *rig) {
			g := t.win(t.claim(-3))
			t.want("held skipped", t.claim(-2))
			t.end(g, "succeeded")
			t.win(t.claim(-1))
			t.want("held skipped", t.claim(0))
			t.wantHistory("-3 succeeded scheduled on a", "-2 skipped", "-1 running scheduled on a", "0 skipped")
		})
		t.fresh("skip: a gap ends the range", func(t *rig) {
			t.win(t.claim(-4))
			t.want("held skipped", t.claim(-3))
			t.want("held skipped", t.claim(-1)) // nobody claimed -2
			t.want("held skipped", t.claim(0))
			t.wantHistory("-4 running scheduled on a", "-3 skipped", "-2 missed", "-1…0 (2) skipped")
		})
		for _, policy := range []string{"queue", "replace"} {
			t.fresh(policy+": the newest waits, the older are superseded", func(t *rig) {
				g := t.win(t.claim(-2, overlap(policy)))
				t.want("held waiting", t.claim(-1, overlap(policy), by("b")))
				t.want("held", t.claim(-1, overlap(policy), by("c"))) // it waits already
				t.want("held waiting", t.claim(0, overlap(policy), by("b")))
				if s := t.state(); !s.Waiting.Equal(t.tick(0)) {
					t.Errorf("State().Waiting = %v, want tick 0", s.Waiting)
				}
				t.want("already", t.claim(-1, overlap(policy), by("c")))
				t.end(g, "succeeded")
				if w := t.win(t.claim(0, overlap(policy), by("c"))); w.Found != "wait" {
					t.Errorf("Found = %q, want wait", w.Found)
				}
				if s := t.state(); !s.Waiting.IsZero() {
					t.Errorf("State().Waiting = %v after the win, want none", s.Waiting)
				}
				t.wantHistory("-2 succeeded scheduled on a", "-1 skipped: superseded by a newer tick", "0 running scheduled on c")
			})
		}
		t.fresh("queue: what waited is not late, and a newer tick that wins supersedes it", func(t *rig) {
			late := func(c *Claim) { c.Deadline = c.Tick.Add(time.Millisecond) }
			g := t.win(t.claim(-2, overlap("queue")))
			t.want("held waiting", t.claim(-1, overlap("queue")))
			t.end(g, "succeeded")
			t.end(t.win(t.claim(-1, overlap("queue"), late)), "succeeded")
			g = t.win(t.claim(0, overlap("queue")))
			t.end(g, "succeeded")
			t.wantHistory("-2 succeeded scheduled on a", "-1 succeeded scheduled on a", "0 succeeded scheduled on a")
		})
		t.fresh("queue: a newer tick that wins supersedes what waits", func(t *rig) {
			g := t.win(t.claim(-2, overlap("queue")))
			t.want("held waiting", t.claim(-1, overlap("queue")))
			t.end(g, "succeeded")
			t.win(t.claim(0, overlap("queue")))
			t.want("already", t.claim(-1, overlap("queue")))
			t.wantHistory("-2 succeeded scheduled on a", "-1 skipped: superseded by a newer tick", "0 running scheduled on a")
		})
		t.fresh("a misfire waits under every policy and never skips", func(t *rig) {
			g := t.win(t.claim(-1))
			for _, policy := range []string{"skip", "queue", "replace"} {
				t.want("held", t.claim(0, overlap(policy), misfire("once"), kind(Misfire)))
			}
			t.end(g, "succeeded")
			t.want("won", t.claim(0, misfire("once"), kind(Misfire)))
			t.wantHistory("-1 succeeded scheduled on a", "0 running misfire on a")
		})
	})
}

func TestClaim_Replace(t *testing.T) {
	onEach(t, func(t *rig) {
		replace := overlap("replace")
		asked := func(t *rig, g *Grant) string { return t.led.Renew(t.ctx(), []*Grant{g})[0].End }
		t.fresh("asks the job's own run to end", func(t *rig) {
			g := t.win(t.claim(-1, replace))
			if end := asked(t, g); end != "" {
				t.Errorf("Renew().End = %q before anybody waits, want none", end)
			}
			t.want("held waiting", t.claim(0, replace))
			if end := asked(t, g); end == "" {
				t.Error("Renew().End is empty, want the tick that waits")
			}
		})
		t.fresh("does not ask the run that comes after it", func(t *rig) {
			g := t.win(t.claim(-1, replace))
			t.want("held waiting", t.claim(0, replace))
			t.expire(g.Claim) // its host died before it could obey
			g = t.win(t.claim(0, replace))
			if end := asked(t, g); end != "" {
				t.Errorf("Renew().End = %q of the run that replaced, want none", end)
			}
		})
		t.fresh("waits for another job's run without asking", func(t *rig) {
			other := t.claim(0, func(c *Claim) { c.Job, c.Lock = "k", "shared" })
			g := t.win(other)
			if d := t.want("held waiting", t.claim(0, replace, onLock("shared"))); d.HolderJob != "k" {
				t.Errorf("HolderJob = %q, want k", d.HolderJob)
			}
			if end := asked(t, g); end != "" {
				t.Errorf("Renew().End = %q of another job's run, want none", end)
			}
		})
	})
}

func TestClaim_HeldByAnother(t *testing.T) {
	onEach(t, func(t *rig) {
		shared := onLock("shared")
		t.fresh("another job's run excludes, and the skip names it", func(t *rig) {
			g := t.win(t.claim(0, shared, by("x"), func(c *Claim) { c.Job = "k" }))
			t.want("held skipped", t.claim(0, shared))
			t.wantHistory("0 skipped: the lock is held by x for k")
			t.end(g, "succeeded")
			t.want("already", t.claim(0, shared))
		})
		t.fresh("consecutive ticks that two runs kept from running are two entries", func(t *rig) {
			k := func(c *Claim) { c.Job = "k" }
			g := t.win(t.claim(-3, shared, k))
			t.want("held skipped", t.claim(-2, shared))
			t.want("held skipped", t.claim(-1, shared))
			t.end(g, "succeeded")
			t.win(t.claim(0, shared, k))
			t.want("held skipped", t.claim(0, shared))
			t.wantHistory("-2…-1 (2) skipped", "0 skipped")
		})
		t.fresh("so does whoever holds the lock by hand", func(t *rig) {
			t.do("SET", "{t}:lock:j", "ab12|7|5000|somebody at a shell", "PX", 5000)
			if d := t.want("held skipped", t.claim(0)); d.Holder != "somebody at a shell" || d.HolderRun != "" || d.Fence != 7 {
				t.Errorf("Claim() = %+v, want the holder's own words and token 7", d)
			}
		})
		t.fresh("a lease that outlasts its own length is cut to it", func(t *rig) {
			t.do("SET", "{t}:lock:j", "ab12|7|5000|x/j/r", "PX", 3600_000)
			if d := t.want("held skipped", t.claim(0)); d.Left > 5*time.Second {
				t.Errorf("Left = %v, want 5 s: Redis' clock stepped back", d.Left)
			}
			if left := t.client.PTTL(t.ctx(), "{t}:lock:j").Val(); left > 5*time.Second {
				t.Errorf("PTTL = %v, want 5 s at most", left)
			}
		})
		t.fresh("finish tells whoever waits, once", func(t *rig) {
			sub := t.led.Hints(t.ctx())
			defer func() { _ = sub.Close() }()
			if _, err := sub.Receive(t.ctx()); err != nil {
				t.Fatal(err)
			}
			g := t.win(t.claim(-1, overlap("queue")))
			t.want("held waiting", t.claim(0, overlap("queue")))
			t.end(g, "succeeded")
			m, err := sub.ReceiveMessage(t.ctx())
			if err != nil || m.Payload != "free j" {
				t.Errorf("hint = %v, %v, want free j", m, err)
			}
			if n := t.do("EXISTS", "{t}:lock:j:wait"); n != int64(0) {
				t.Errorf("EXISTS :wait = %v after the hint, want 0", n)
			}
		})
	})
}

// A deploy changes the lock's name, or the policy, while a run is going on under the old one.
func TestClaim_HeldUnderAnotherName(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("the old lease still excludes", func(t *rig) {
			g := t.win(t.claim(-1, onLock("old")))
			t.want("held skipped", t.claim(0, onLock("new")))
			t.end(g, "succeeded")
			t.wantHistory("-1 succeeded scheduled on a", "0 skipped: the run before is still going on a")
		})
		t.fresh("and is waited for under its own name", func(t *rig) {
			g := t.win(t.claim(-1, onLock("old")))
			t.want("held waiting", t.claim(0, onLock("new"), overlap("queue")))
			if n := t.do("EXISTS", "{t}:lock:old:wait"); n != int64(1) {
				t.Errorf("EXISTS lock:old:wait = %v, want 1: nobody frees the new name", n)
			}
			t.end(g, "succeeded")
			t.want("won", t.claim(0, onLock("new"), overlap("queue")))
		})
		t.fresh("also for a manual run", func(t *rig) {
			t.win(t.claim(-1, onLock("old")))
			t.want("held skipped", t.manual(onLock("new")))
		})
		t.fresh("until it is gone: then its run is lost", func(t *rig) {
			g := t.win(t.claim(-1, onLock("old")))
			t.expire(g.Claim)
			t.want("won", t.claim(0, onLock("new")))
			t.wantHistory("-1 lost scheduled on a", "0 running scheduled on a")
		})
		t.fresh("allow taken back: its runs still exclude, also the older ones", func(t *rig) {
			older := t.win(t.claim(-2, parallel))
			newer := t.win(t.claim(-1, parallel))
			t.end(newer, "succeeded")
			t.want("held skipped", t.claim(0))
			t.end(older, "succeeded")
			t.wantHistory("-2 succeeded scheduled on a", "-1 succeeded scheduled on a", "0 skipped")
		})
		t.fresh("allow given: a run that was promised to be alone stays alone", func(t *rig) {
			t.win(t.claim(-1))
			t.want("held skipped", t.claim(0, parallel))
		})
	})
}
