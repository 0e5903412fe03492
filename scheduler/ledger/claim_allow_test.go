package ledger

import (
	"fmt"
	"testing"
)

// Under "allow" each tick has a lease of its own; the record knows the newest run whole.
func TestClaim_Allow(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("runs overlap, up to max_parallel", func(t *rig) {
			one := t.win(t.claim(-4, parallel))
			two := t.win(t.claim(-3, parallel))
			if two.Fence <= one.Fence {
				t.Errorf("tokens %d, %d of one lock, want them to rise", one.Fence, two.Fence)
			}
			t.want("held skipped", t.claim(-2, parallel))
			t.want("held skipped", t.claim(-1, parallel))
			t.end(one, "succeeded")
			t.win(t.claim(0, parallel))
			t.wantHistory("-4 succeeded scheduled on a", "-3 running scheduled on a",
				"-2…-1 (2) skipped: max_parallel runs are going", "0 running scheduled on a")
		})
		t.fresh("a misfire waits for a place", func(t *rig) {
			one := t.win(t.claim(-2, parallel))
			t.win(t.claim(-1, parallel))
			t.want("held", t.claim(0, parallel, misfire("once"), kind(Misfire)))
			t.end(one, "succeeded")
			t.want("won", t.claim(0, parallel, misfire("once"), kind(Misfire)))
		})
		t.fresh("each run that dies is lost, also one that is not the newest", func(t *rig) {
			one := t.win(t.claim(-2, parallel))
			two := t.win(t.claim(-1, parallel))
			t.expire(one.Claim)
			t.expire(two.Claim)
			t.win(t.claim(0, parallel))
			if n := t.do("XLEN", "{t}:job:j:fails"); n != int64(2) {
				t.Errorf("XLEN fails = %v, want 2: History would show them as lost, but they must be recorded", n)
			}
			t.unchangedBy("a later claim", func() { t.want("already", t.claim(0, parallel)) })
			t.wantHistory("-2 lost scheduled on a", "-1 lost scheduled on a", "0 running scheduled on a")
		})
		t.fresh("and takes no place any more", func(t *rig) {
			for n := -6; n <= 0; n++ {
				g := t.win(t.claim(n, parallel))
				t.expire(g.Claim)
			}
		})
		t.fresh("the newest can be run again", func(t *rig) {
			t.win(t.claim(-1, parallel, reruns))
			two := t.win(t.claim(0, parallel, reruns))
			t.expire(two.Claim)
			t.ran(0, parallel, reruns, by("b"))
			t.wantHistory("-1 running scheduled on a", "0 lost scheduled on a", "0 succeeded rerun on b")
		})
		t.fresh("the record forgets each run that ended", func(t *rig) {
			one := t.win(t.claim(-1, parallel))
			two := t.win(t.claim(0, parallel))
			if rec := t.record(); rec["par:"+one.Claim.Run] == "" || rec["par:"+two.Claim.Run] == "" {
				t.Errorf("record = %v, want a field for each run", rec)
			}
			t.end(one, "failed")
			t.abandon(two.Claim)
			for name := range t.record() {
				if len(name) > 4 && name[:4] == "par:" {
					t.Errorf("the record still has %s", name)
				}
			}
		})
		t.fresh("an older run that is given back was missed", func(t *rig) {
			one := t.claim(-1, parallel)
			t.win(one)
			t.win(t.claim(0, parallel))
			t.abandon(one)
			t.wantHistory("-1 missed: given back: draining", "0 running scheduled on a")
		})
	})
}

// A reply that was lost is asked for again, also when a newer run has begun meanwhile.
func TestClaim_AllowRepeated(t *testing.T) {
	onEach(t, func(t *rig) {
		for _, newest := range []bool{true, false} {
			t.fresh(fmt.Sprintf("the newest run: %v", newest), func(t *rig) {
				c := t.claim(-1, parallel)
				g := t.win(c)
				if !newest {
					t.win(t.claim(0, parallel, by("b")))
				}
				d := t.want("won", c)
				if d.Fence != g.Fence || !d.Won.Equal(g.Won) {
					t.Errorf("Fence, Won = %d, %v the second time, want %d, %v", d.Fence, d.Won, g.Fence, g.Won)
				}
				t.expire(c)
				if d = t.want("won", c); d.Fence <= g.Fence {
					t.Errorf("Fence = %d of the grant made anew, want above %d", d.Fence, g.Fence)
				}
				g = &Grant{Claim: c, Fence: d.Fence, Won: d.Won}
				if s := t.led.Renew(t.ctx(), []*Grant{g})[0]; !s.Renewed {
					t.Errorf("Renew() = %+v, want renewed", s)
				}
				if held := t.end(g, "succeeded"); !held {
					t.Error("Finish() = not held, want held")
				}
				t.want("already", c)
			})
		}
	})
}
