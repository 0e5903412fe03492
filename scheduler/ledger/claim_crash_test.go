package ledger

import (
	"testing"
)

func TestClaim_Lost(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("the next claim records a run whose lease ended", func(t *rig) {
			g := t.win(t.claim(-1))
			t.expire(g.Claim)
			t.wantHistory("-1 lost scheduled on a: the lease ended and a reported no outcome") // seen before it is recorded
			if s := t.state(); s.Running || s.Last == nil || s.Last.Outcome != OutcomeLost {
				t.Errorf("State() = %+v, want a lost run that is not running", s)
			}
			t.win(t.claim(0, by("b")))
			t.wantHistory("-1 lost scheduled on a: the lease ended and a reported no outcome", "0 running scheduled on b")
		})
		t.fresh("also a claim that is decided already, once", func(t *rig) {
			g := t.win(t.claim(0))
			t.expire(g.Claim)
			t.want("already", t.claim(0, by("b")))
			t.want("already", t.claim(0, by("c")))
			if n := t.do("XLEN", "{t}:job:j:runs"); n != int64(2) {
				t.Errorf("XLEN runs = %v, want 2: the start and one end", n)
			}
		})
		t.fresh("a lock that another holds now is not the run's", func(t *rig) {
			g := t.win(t.claim(-1, onLock("shared")))
			t.expire(g.Claim)
			t.win(t.claim(-1, onLock("shared"), func(c *Claim) { c.Job = "k" }))
			t.want("held skipped", t.claim(0, onLock("shared")))
			t.wantHistory("-1 lost scheduled on a", "0 skipped: the lock is held by a for k")
		})
		t.fresh("a late outcome replaces it", func(t *rig) {
			g := t.win(t.claim(-1))
			t.expire(g.Claim)
			t.ran(0, by("b"))
			if held := t.end(g, "succeeded"); held {
				t.Error("Finish() = held, want not: the lease had ended")
			}
			t.wantHistory("-1 succeeded scheduled on a: reported late", "0 succeeded scheduled on b")
			if n := t.do("XLEN", "{t}:job:j:fails"); n != int64(0) {
				t.Errorf("XLEN fails = %v, want 0: it did not fail", n)
			}
		})
	})
}

func TestClaim_Rerun(t *testing.T) {
	onEach(t, func(t *rig) {
		crash := func(t *rig, n int) *Grant { g := t.win(t.claim(n, reruns)); t.expire(g.Claim); return g }
		t.fresh("another host runs the tick again, under a larger token, once", func(t *rig) {
			first := crash(t, 0)
			again := t.win(t.claim(0, reruns, by("b")))
			if again.Found != "rerun" || again.Fence <= first.Fence {
				t.Errorf("Found, Fence = %q, %d, want rerun, above %d", again.Found, again.Fence, first.Fence)
			}
			t.expire(again.Claim)
			t.want("already", t.claim(0, reruns, by("c")))
			t.wantHistory("0 lost scheduled on a", "0 lost rerun on b")
		})
		// A claim of the race that lay in a server which hung, and is answered before the outcome that lay behind it.
		t.fresh("not by a claim of the race: its host may be well, and report", func(t *rig) {
			race := func(c *Claim) { c.Race = true }
			first := crash(t, 0)
			t.want("already", t.claim(0, reruns, race, by("b")))
			t.end(first, "succeeded")
			t.want("already", t.claim(0, reruns, by("b")))
			t.wantHistory("0 succeeded scheduled on a: reported late")
		})
		t.fresh("by who has looked, after a claim of the race", func(t *rig) {
			race := func(c *Claim) { c.Race = true }
			crash(t, -1)
			t.want("already", t.claim(-1, reruns, race, by("b")))
			if again := t.win(t.claim(-1, reruns, by("b"))); again.Found != "rerun" {
				t.Errorf("Found = %q, want rerun", again.Found)
			}
		})
		t.fresh("a newer tick of the race goes before it", func(t *rig) {
			race := func(c *Claim) { c.Race = true }
			crash(t, -1)
			t.ran(0, reruns, race, by("b"))
			t.wantHistory("-1 skipped: its rerun was superseded by a newer run", "-1 lost scheduled on a", "0 succeeded scheduled on b")
		})
		t.fresh("the win says so, and so does the history", func(t *rig) {
			crash(t, 0)
			c := t.claim(0, reruns)
			if d := t.want("won", c); d.Reruns != 1 {
				t.Errorf("Reruns = %d, want 1", d.Reruns)
			}
			if e := t.only(Rerun); e.Reruns != 1 {
				t.Errorf("Entry.Reruns = %d, want 1", e.Reruns)
			}
		})
		t.fresh("not while the lease lives", func(t *rig) {
			t.win(t.claim(0, reruns))
			t.want("already", t.claim(0, reruns, by("b")))
		})
		t.fresh("not under the policy skip", func(t *rig) {
			crash(t, 0)
			t.want("already", t.claim(0, by("b")))
		})
		t.fresh("past the deadline too", func(t *rig) {
			crash(t, 0)
			t.want("won", t.claim(0, reruns, func(c *Claim) { c.Deadline = t.tick(0) }))
		})
		t.fresh("an interrupted run counts as crashed", func(t *rig) {
			g := t.win(t.claim(0, reruns))
			t.end(g, "interrupted")
			t.ran(0, reruns, by("b"))
			t.wantHistory("0 interrupted scheduled on a", "0 succeeded rerun on b")
		})
		t.fresh("so does one that its own host reports as lost, before or after another noticed", func(t *rig) {
			for n, noticed := range []bool{false, true} {
				g := crash(t, n-1)
				if noticed {
					t.want("already", t.claim(n-2, reruns))
				}
				t.end(g, "lost")
				t.ran(n-1, reruns, by("b"))
			}
			t.wantHistory("-1 lost scheduled on a: reported late", "-1 succeeded rerun on b", "0 lost scheduled on a: reported late", "0 succeeded rerun on b")
		})
		t.fresh("a failed one does not", func(t *rig) {
			t.end(t.win(t.claim(0, reruns)), "failed")
			t.want("already", t.claim(0, reruns))
		})
		t.fresh("a newer tick supersedes it, and that is recorded", func(t *rig) {
			crash(t, -1)
			t.ran(0, reruns, by("b"))
			t.want("already", t.claim(-1, reruns, by("b")))
			t.wantHistory("-1 skipped: its rerun was superseded by a newer run", "-1 lost scheduled on a: the lease ended and a reported no outcome", "0 succeeded scheduled on b")
		})
		t.fresh("a newer tick that is skipped does not", func(t *rig) {
			crash(t, -1)
			other := t.win(t.claim(0, func(c *Claim) { c.Job = "k" })) // holds the lock j
			t.want("held skipped", t.claim(0, reruns))
			t.want("held", t.claim(-1, reruns)) // a rerun waits
			t.end(other, "succeeded")
			t.ran(-1, reruns, by("b"))
			t.wantHistory("-1 lost scheduled on a", "-1 succeeded rerun on b", "0 skipped")
		})
		t.fresh("an outcome that comes before it has begun calls it off", func(t *rig) {
			g := crash(t, 0)
			t.do("SET", "{t}:lock:j", "ab12|7|9000|x", "PX", 9000)
			t.want("held", t.claim(0, reruns, by("b"))) // seen lost, not run yet
			t.do("DEL", "{t}:lock:j")
			t.end(g, "succeeded")
			t.want("already", t.claim(0, reruns, by("b")))
			t.wantHistory("0 succeeded scheduled on a: reported late")
		})
		t.fresh("an outcome that comes after is recorded beside it", func(t *rig) {
			g := crash(t, 0)
			again := t.win(t.claim(0, reruns, by("b")))
			t.end(g, "succeeded")
			if s := t.state(); !s.Running || s.HolderRun != again.Claim.Run {
				t.Errorf("State() = %+v, want the rerun running", s)
			}
			t.end(again, "succeeded")
			t.wantHistory("0 succeeded scheduled on a: reported late", "0 succeeded rerun on b")
		})
	})
}
