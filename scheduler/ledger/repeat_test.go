package ledger

import (
	"testing"
	"time"
)

// A reply may be lost and its request sent again, by go-redis or by the scheduler. Whatever
// the first one did, the second changes nothing in Redis.

func (r *rig) unchangedBy(what string, f func()) {
	r.Helper()
	before := r.dump()
	f()
	if after := r.dump(); after != before {
		r.Errorf("%s a second time changed the ledger from\n%sto\n%s", what, before, after)
	}
}

func TestClaim_Repeated(t *testing.T) {
	late := func(c *Claim) { c.Deadline = c.Tick.Add(time.Millisecond) }
	cases := map[string]struct {
		prepare       func(t *rig) // what was there before
		claim         func(t *rig) Claim
		first, second string
	}{
		"won":         {nil, func(t *rig) Claim { return t.claim(0) }, "won", "won"},
		"early":       {nil, func(t *rig) Claim { return t.claim(1) }, "early", "early"},
		"late missed": {nil, func(t *rig) Claim { return t.claim(0, late) }, "late missed", "already"},
		"late":        {nil, func(t *rig) Claim { return t.claim(0, misfire("all"), late) }, "late", "late"},
		"already":     {func(t *rig) { t.ran(0) }, func(t *rig) Claim { return t.claim(0) }, "already", "already"},
		"skipped":     {func(t *rig) { t.win(t.claim(-1)) }, func(t *rig) Claim { return t.claim(0) }, "held skipped", "already"},
		"skipped again": {
			func(t *rig) { t.win(t.claim(-2)); t.ask(t.claim(-1)) },
			func(t *rig) Claim { return t.claim(0) }, "held skipped", "already",
		},
		"waiting": {
			func(t *rig) { t.win(t.claim(-2)); t.ask(t.claim(-1, overlap("queue"))) },
			func(t *rig) Claim { return t.claim(0, overlap("queue")) }, "held waiting", "held",
		},
		"replacing": {
			func(t *rig) { t.win(t.claim(-1)) },
			func(t *rig) Claim { return t.claim(0, overlap("replace")) }, "held waiting", "held",
		},
		"misfire held": {func(t *rig) { t.win(t.claim(-1)) }, func(t *rig) Claim { return t.claim(0, kind(Misfire)) }, "held", "held"},
		"behind":       {func(t *rig) { t.ran(-5) }, func(t *rig) Claim { return t.claim(0, t.back(-9)) }, "behind", "behind"},
		"after a gap":  {func(t *rig) { t.ran(-5) }, func(t *rig) Claim { return t.claim(0) }, "won", "won"},
		"gap and late": {func(t *rig) { t.ran(-5) }, func(t *rig) Claim { return t.claim(0, late) }, "late missed", "already"},
		"gap and held": {func(t *rig) { t.win(t.claim(-5)) }, func(t *rig) Claim { return t.claim(0) }, "held skipped", "already"},
		"what waited": {
			func(t *rig) {
				g := t.win(t.claim(-1))
				t.ask(t.claim(0, overlap("queue")))
				t.end(g, "succeeded")
			},
			func(t *rig) Claim { return t.claim(0, overlap("queue")) }, "won", "won",
		},
		"what was open": {
			func(t *rig) { c := t.claim(0); t.win(c); t.abandon(c) },
			func(t *rig) Claim { return t.claim(0) }, "won", "won",
		},
		"over an open tick": {
			func(t *rig) { c := t.claim(-1); t.win(c); t.abandon(c) },
			func(t *rig) Claim { return t.claim(0) }, "won", "won",
		},
		"after a crash": {func(t *rig) { t.expire(t.win(t.claim(-1)).Claim) }, func(t *rig) Claim { return t.claim(0) }, "won", "won"},
		"rerun": {
			func(t *rig) { t.expire(t.win(t.claim(0)).Claim) },
			func(t *rig) Claim { return t.claim(0, reruns) }, "won", "won",
		},
		"over a rerun": {
			func(t *rig) { t.expire(t.win(t.claim(-1)).Claim) },
			func(t *rig) Claim { return t.claim(0, reruns) }, "won", "won",
		},
		"parallel": {func(t *rig) { t.win(t.claim(-1, parallel)) }, func(t *rig) Claim { return t.claim(0, parallel) }, "won", "won"},
		"full": {
			func(t *rig) { t.win(t.claim(-2, parallel)); t.win(t.claim(-1, parallel)) },
			func(t *rig) Claim { return t.claim(0, parallel) }, "held skipped", "already",
		},
		"manual":      {nil, func(t *rig) Claim { return t.manual() }, "won", "won"},
		"manual held": {func(t *rig) { t.win(t.claim(0)) }, func(t *rig) Claim { return t.manual() }, "held skipped", "already"},
		"known":       {nil, func(t *rig) Claim { return t.claim(0, func(c *Claim) { c.Known = c.Tick }) }, "already", "already"},
		"marked":      {nil, func(t *rig) Claim { return t.claim(0, func(c *Claim) { c.Table, c.Index = "tb", 3 }) }, "won", "won"},
	}
	onEach(t, func(t *rig) {
		for name, c := range cases {
			t.fresh(name, func(t *rig) {
				if c.prepare != nil {
					c.prepare(t)
				}
				claim := c.claim(t)
				first := t.want(c.first, claim)
				t.unchangedBy("Claim()", func() {
					second := t.want(c.second, claim)
					if first.Answer == Won && (second.Fence != first.Fence || second.Found != first.Found ||
						second.Reruns != first.Reruns || !second.Won.Equal(first.Won)) {
						t.Errorf("Claim() = %+v the second time, want the same as %+v", second, first)
					}
				})
			})
		}
	})
}

// The lease ended before the reply that told of it arrived: the host is still asking, so it
// never started, and nobody else has the tick.
func TestClaim_GrantedAnew(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("under a larger token, as one run", func(t *rig) {
			c := t.claim(0)
			first := t.win(c)
			t.expire(c)
			g := t.win(c)
			if g.Fence <= first.Fence {
				t.Errorf("Fence = %d, want above %d", g.Fence, first.Fence)
			}
			t.wantHistory("0 running scheduled on a")
			if s := t.state(); !s.Running || s.Token != g.Fence || s.Last.Token != g.Fence {
				t.Errorf("State() = %+v, want running under %d", s, g.Fence)
			}
			t.unchangedBy("Claim()", func() { t.win(c) })
			t.end(g, "succeeded")
			t.wantHistory("0 succeeded scheduled on a")
		})
		t.fresh("also by hand: who asked is not forgotten", func(t *rig) {
			c := t.manual()
			t.win(c)
			t.expire(c)
			t.win(c)
			if e := t.only(Manual); e.Request != c.Request || e.Who != "ada" {
				t.Errorf("Request, Who = %q, %q, want %q, ada", e.Request, e.Who, c.Request)
			}
		})
		t.fresh("not when it was recorded as lost", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.expire(c)
			t.want("already", t.claim(0, by("b")))
			t.want("already", c)
		})
		t.fresh("not when the lock is another's by now", func(t *rig) {
			c := t.claim(0, onLock("shared"))
			t.win(c)
			t.expire(c)
			t.win(t.claim(0, onLock("shared"), func(c *Claim) { c.Job = "k" }))
			t.want("already", c)
		})
		t.fresh("not when it has ended", func(t *rig) {
			g := t.ran(0)
			t.want("already", g.Claim)
		})
		t.fresh("not with another token", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.expire(c)
			other := t.claim(0)
			other.Run = c.Run
			t.want("already", other)
		})
	})
}

func TestFinish_Repeated(t *testing.T) {
	states := map[string]func(t *rig) *Grant{
		"running":           func(t *rig) *Grant { return t.win(t.claim(0)) },
		"lease ended":       func(t *rig) *Grant { g := t.win(t.claim(0)); t.expire(g.Claim); return g },
		"recorded as lost":  func(t *rig) *Grant { g := t.win(t.claim(0)); t.expire(g.Claim); t.ask(t.claim(0)); return g },
		"a newer run":       func(t *rig) *Grant { g := t.win(t.claim(-1)); t.expire(g.Claim); t.win(t.claim(0)); return g },
		"a newer one ended": func(t *rig) *Grant { g := t.win(t.claim(-1)); t.expire(g.Claim); t.ran(0); return g },
		"its rerun": func(t *rig) *Grant {
			g := t.win(t.claim(0))
			t.expire(g.Claim)
			t.win(t.claim(0, reruns))
			return g
		},
		"one of several": func(t *rig) *Grant { g := t.win(t.claim(-1, parallel)); t.win(t.claim(0, parallel)); return g },
		"forgotten":      func(t *rig) *Grant { g := t.win(t.claim(0)); t.do("FLUSHALL"); return g },
		"a manual run":   func(t *rig) *Grant { return t.win(t.manual()) },
		"somebody waits": func(t *rig) *Grant { g := t.win(t.claim(-1)); t.ask(t.claim(0, overlap("queue"))); return g },
	}
	onEach(t, func(t *rig) {
		for name, prepare := range states {
			for _, outcome := range []string{"succeeded", "failed", "interrupted", "lost"} {
				t.fresh(name+", "+outcome, func(t *rig) {
					g := prepare(t)
					e := Ending{Outcome: outcome, Attempt: 1, Ended: t.now(), Output: []byte("text")}
					if _, err := t.led.Finish(t.ctx(), g, e); err != nil {
						t.Fatalf("Finish() = %v, want no error", err)
					}
					t.unchangedBy("Finish()", func() {
						if held, err := t.led.Finish(t.ctx(), g, e); held || err != nil {
							t.Errorf("Finish() = %v, %v the second time, want not held", held, err)
						}
					})
					entries, err := t.led.History(t.ctx(), Query{Jobs: []string{"j"}, Outcome: outcome})
					if err != nil || len(entries) == 0 {
						t.Errorf("History(%s) = %v, %v, want the run", outcome, entries, err)
					}
				})
			}
		}
	})
}

func TestAbandon_Repeated(t *testing.T) {
	states := map[string]func(t *rig) Claim{
		"never sent":       func(t *rig) Claim { return t.claim(0) },
		"refused":          func(t *rig) Claim { t.ran(0); c := t.claim(0); t.ask(c); return c },
		"won":              func(t *rig) Claim { return t.win(t.claim(0)).Claim },
		"won what waited":  func(t *rig) Claim { g := t.win(t.claim(-1)); return t.wonAfterWait(g) },
		"won a rerun":      func(t *rig) Claim { t.expire(t.win(t.claim(0)).Claim); return t.win(t.claim(0, reruns)).Claim },
		"won by hand":      func(t *rig) Claim { return t.win(t.manual()).Claim },
		"one of several":   func(t *rig) Claim { g := t.win(t.claim(-1, parallel)); t.win(t.claim(0, parallel)); return g.Claim },
		"lease ended":      func(t *rig) Claim { g := t.win(t.claim(0)); t.expire(g.Claim); return g.Claim },
		"recorded as lost": func(t *rig) Claim { g := t.win(t.claim(0)); t.expire(g.Claim); t.ask(t.claim(0)); return g.Claim },
		"slot taken":       func(t *rig) Claim { g := t.win(t.claim(-1)); t.expire(g.Claim); t.win(t.claim(0)); return g.Claim },
		"ended":            func(t *rig) Claim { return t.ran(0).Claim },
	}
	onEach(t, func(t *rig) {
		for name, prepare := range states {
			t.fresh(name, func(t *rig) {
				c := prepare(t)
				t.abandon(c)
				mark := "{t}:run:" + c.Run
				if t.do("HDEL", mark, "job") == int64(0) && name != "ended" {
					t.Errorf("%s has no mark, want one: the claim may still arrive", mark)
				}
				t.unchangedBy("Abandon()", func() { t.abandon(c); t.do("HDEL", mark, "job") })
			})
		}
	})
}

func (r *rig) wonAfterWait(g *Grant) Claim {
	r.Helper()
	r.want("held waiting", r.claim(0, overlap("queue")))
	r.end(g, "succeeded")
	return r.win(r.claim(0, overlap("queue"))).Claim
}

func TestRenew_Repeated(t *testing.T) {
	onEach(t, func(t *rig) {
		g := t.win(t.claim(0))
		t.unchangedBy("Renew()", func() {
			for range 2 {
				if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; !a.Renewed || a.Err != nil {
					t.Errorf("Renew() = %+v, want renewed", a)
				}
			}
		})
		t.expire(g.Claim)
		t.unchangedBy("Renew() of a lease that ended", func() {
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; a.Renewed || a.Err != nil {
				t.Errorf("Renew() = %+v, want not renewed", a)
			}
		})
	})
}
