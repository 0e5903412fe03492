package ledger

import (
	"slices"
	"testing"
)

// open lists the jobs that heartbeats are told have a tick given back.
func (r *rig) open() []string {
	r.Helper()
	f, err := r.led.Beat(r.ctx(), Host{Name: "a"}, "x", "0")
	if err != nil {
		r.Fatalf("Beat() = %v, want no error", err)
	}
	return f.Open
}

func TestAbandon_RestoresWhatTheWinFound(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a new tick is open, to anybody", func(t *rig) {
			c := t.claim(0)
			first := t.win(c)
			t.abandon(c)
			if s := t.state(); !s.Open.Equal(t.tick(0)) || s.Running {
				t.Errorf("State().Open = %v, Running %v, want tick 0, not running", s.Open, s.Running)
			}
			if open := t.open(); !slices.Equal(open, []string{"j"}) {
				t.Errorf("Beat().Open = %v, want j", open)
			}
			t.wantHistory() // it is no run
			g := t.win(t.claim(0, by("b")))
			if g.Found != "open" || g.Fence <= first.Fence {
				t.Errorf("Found, Fence = %q, %d, want open, above %d", g.Found, g.Fence, first.Fence)
			}
			if open := t.open(); len(open) != 0 {
				t.Errorf("Beat().Open = %v after the win, want none", open)
			}
			t.end(g, "succeeded")
			t.wantHistory("0 succeeded scheduled on b")
		})
		t.fresh("an open tick is open again", func(t *rig) {
			for range 3 {
				c := t.claim(0)
				t.win(c)
				t.abandon(c)
			}
			t.ran(0)
			t.wantHistory("0 succeeded scheduled on a")
		})
		t.fresh("a waiting tick waits again", func(t *rig) {
			g := t.win(t.claim(-1, overlap("queue")))
			t.want("held waiting", t.claim(0, overlap("queue")))
			t.end(g, "succeeded")
			c := t.claim(0, overlap("queue"))
			t.win(c)
			t.abandon(c)
			if s := t.state(); !s.Waiting.Equal(t.tick(0)) || !s.Open.IsZero() {
				t.Errorf("State().Waiting, Open = %v, %v, want tick 0, none", s.Waiting, s.Open)
			}
			if open := t.open(); len(open) != 1 {
				t.Errorf("Beat().Open = %v, want j", open)
			}
			if g := t.win(t.claim(0, overlap("queue"), by("b"))); g.Found != "wait" {
				t.Errorf("Found = %q, want wait", g.Found)
			}
			if open := t.open(); len(open) != 0 {
				t.Errorf("Beat().Open = %v after the win, want none", open)
			}
		})
		t.fresh("unless a newer one waits by now", func(t *rig) {
			g := t.win(t.claim(-2, overlap("queue")))
			t.want("held waiting", t.claim(-1, overlap("queue")))
			t.end(g, "succeeded")
			c := t.claim(-1, overlap("queue"))
			t.win(c)
			t.want("held waiting", t.claim(0, overlap("queue")))
			t.abandon(c)
			t.wantHistory("-2 succeeded scheduled on a", "-1 skipped: superseded by a newer tick")
			t.want("won", t.claim(0, overlap("queue")))
		})
		t.fresh("a rerun can be claimed again, and counts once", func(t *rig) {
			first := t.win(t.claim(0, reruns))
			t.expire(first.Claim)
			c := t.claim(0, reruns, by("b"))
			t.win(c)
			t.abandon(c)
			t.wantHistory("0 lost scheduled on a")
			g := t.win(t.claim(0, reruns, by("c")))
			if g.Found != "rerun" {
				t.Errorf("Found = %q, want rerun", g.Found)
			}
			t.expire(g.Claim)
			t.want("already", t.claim(0, reruns))
		})
		t.fresh("a rerun that was given back is called off by a late outcome", func(t *rig) {
			first := t.win(t.claim(0, reruns))
			t.expire(first.Claim)
			c := t.claim(0, reruns, by("b"))
			t.win(c)
			t.abandon(c)
			t.end(first, "succeeded")
			t.want("already", t.claim(0, reruns, by("c")))
			t.wantHistory("0 succeeded scheduled on a: reported late")
		})
		t.fresh("a manual run is answered, not open", func(t *rig) {
			t.ran(0)
			c := t.manual()
			t.win(c)
			t.abandon(c)
			if open := t.open(); len(open) != 0 {
				t.Errorf("Beat().Open = %v, want none", open)
			}
			t.wantHistory("0 succeeded scheduled on a", "manual skipped: given back: draining")
			if e := t.only(Manual); e.Request != c.Request {
				t.Errorf("Request = %q, want %q: somebody waits for it", e.Request, c.Request)
			}
		})
	})
}

func TestAbandon_OpenTick(t *testing.T) {
	onEach(t, func(t *rig) {
		give := func(t *rig, n int, change ...func(*Claim)) { c := t.claim(n, change...); t.win(c); t.abandon(c) }
		t.fresh("is missed when its deadline has passed", func(t *rig) {
			give(t, 0)
			t.want("late missed", t.claim(0, func(c *Claim) { c.Deadline = t.tick(0) }))
			if open := t.open(); len(open) != 0 {
				t.Errorf("Beat().Open = %v, want none", open)
			}
			t.wantHistory("0 missed")
			t.want("already", t.claim(0))
		})
		t.fresh("is missed when a newer tick wins first", func(t *rig) {
			give(t, -1)
			t.win(t.claim(0))
			t.want("already", t.claim(-1))
			if open := t.open(); len(open) != 0 {
				t.Errorf("Beat().Open = %v, want none", open)
			}
			t.wantHistory("-1 missed: given back by a (draining), and not taken again in time", "0 running scheduled on a")
		})
		for policy, want := range map[string]string{"skip": "held skipped", "queue": "held waiting", "replace": "held waiting"} {
			t.fresh("meets a held lock under "+policy, func(t *rig) {
				shared := func(c *Claim) { c.Lock, c.Overlap = "shared", policy }
				give(t, 0, shared)
				other := t.win(t.claim(0, shared, func(c *Claim) { c.Job = "k" }))
				t.want(want, t.claim(0, shared))
				if open := t.open(); len(open) != 0 {
					t.Errorf("Beat().Open = %v, want none: it is decided", open)
				}
				t.end(other, "succeeded")
				if policy == "skip" {
					t.wantHistory("0 skipped")
				} else {
					t.ran(0, shared)
					t.wantHistory("0 succeeded scheduled on a")
				}
			})
		}
		t.fresh("is superseded if it meets a held lock and a newer tick waits", func(t *rig) {
			shared := func(c *Claim) { c.Lock, c.Overlap = "shared", "queue" }
			give(t, -1, shared)
			t.win(t.claim(0, shared, func(c *Claim) { c.Job = "k" }))
			t.want("held waiting", t.claim(0, shared))
			t.want("held skipped", t.claim(-1, shared))
			t.wantHistory("-1 skipped: superseded by a newer tick")
			if s := t.state(); !s.Waiting.Equal(t.tick(0)) {
				t.Errorf("State().Waiting = %v, want tick 0", s.Waiting)
			}
		})
	})
}

func TestAbandon_AfterTheLeaseEnded(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("nobody has noticed", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.expire(c)
			t.abandon(c)
			t.ran(0, by("b"))
			t.wantHistory("0 succeeded scheduled on b")
		})
		t.fresh("it was recorded as lost: that is taken back", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.expire(c)
			t.want("already", t.claim(0, by("b")))
			t.abandon(c)
			t.wantHistory()
			t.ran(0, by("b"))
			t.wantHistory("0 succeeded scheduled on b")
		})
		t.fresh("a newer tick has the slot: missed", func(t *rig) {
			c := t.claim(-1)
			t.win(c)
			t.expire(c)
			g := t.win(t.claim(0, by("b")))
			t.abandon(c)
			t.wantHistory("-1 missed: given back: draining", "0 running scheduled on b")
			if held := t.end(g, "succeeded"); !held {
				t.Error("Finish() of the newer run = not held, want held: an abandon is not its")
			}
		})
		t.fresh("its rerun has the slot, or had it: nothing is missed", func(t *rig) {
			c := t.claim(-1, reruns)
			t.win(c)
			t.expire(c)
			t.ran(-1, reruns, by("b"))
			t.ran(0, reruns, by("b"))
			t.abandon(c)
			t.wantHistory("-1 succeeded rerun on b", "0 succeeded scheduled on b")
		})
		t.fresh("it was a rerun itself: the tick did run", func(t *rig) {
			t.expire(t.win(t.claim(-1, reruns)).Claim)
			c := t.claim(-1, reruns, by("b"))
			t.win(c)
			t.expire(c)
			t.ran(0, reruns)
			t.abandon(c)
			t.wantHistory("-1 skipped: its rerun was given back, and superseded by a newer run",
				"-1 lost scheduled on a: the lease ended and a reported no outcome", "0 succeeded scheduled on a")
		})
		t.fresh("its rerun was superseded: that is recorded already", func(t *rig) {
			c := t.claim(-1, reruns)
			t.win(c)
			t.expire(c)
			t.ran(0, reruns, by("b"))
			t.abandon(c)
			t.wantHistory("-1 skipped: its rerun was superseded by a newer run", "0 succeeded scheduled on b")
		})
	})
}

// A claim whose answer never came is given up: it may have been won, refused, or not arrived.
func TestAbandon_OfAnUnknownClaim(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("it had lost: nothing changes", func(t *rig) {
			g := t.win(t.claim(0))
			c := t.claim(0, by("b"))
			t.want("already", c)
			t.abandon(c)
			t.wantHistory("0 running scheduled on a")
			if held := t.end(g, "succeeded"); !held {
				t.Error("Finish() of the winner = not held, want held")
			}
		})
		t.fresh("the abandon overtakes it: then it loses, and the tick stays free", func(t *rig) {
			c := t.claim(0)
			t.abandon(c)
			t.want("already", c)
			t.want("already", c)
			t.ran(0, by("b"))
			t.wantHistory("0 succeeded scheduled on b")
		})
		t.fresh("the abandon arrives twice, the claim in between", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.abandon(c)
			t.want("already", c)
			t.abandon(c)
			t.ran(0, by("b"))
			t.wantHistory("0 succeeded scheduled on b")
		})
		t.fresh("an overtaken manual claim leaves the request to others", func(t *rig) {
			q := t.request(false)
			c := t.answering(q)
			t.abandon(c)
			t.want("already", c)
			t.want("won", t.answering(q, by("b")))
		})
		t.fresh("a run that ended is not given back", func(t *rig) {
			older, newer := t.ran(-1), t.ran(0)
			for _, g := range []*Grant{older, newer} {
				t.unchangedBy("Abandon() of a run that ended, not even", func() { t.abandon(g.Claim) })
			}
			t.want("already", t.claim(0))
			t.wantHistory("-1 succeeded scheduled on a", "0 succeeded scheduled on a")
		})
		t.fresh("what it leaves behind expires", func(t *rig) {
			c := t.claim(0)
			t.abandon(c)
			if ttl := t.client.PTTL(t.ctx(), "{t}:run:"+c.Run).Val(); ttl <= 0 {
				t.Errorf("PTTL = %v, want an expiry", ttl)
			}
		})
	})
}
