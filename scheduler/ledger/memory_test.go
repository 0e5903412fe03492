package ledger

import (
	"errors"
	"strconv"
	"testing"

	"rota/locking"
)

// A server at maxmemory refuses what would need more: a claim wins nothing and leaves
// nothing, while leases are renewed and freed and outcomes recorded.
func TestLedger_OutOfMemory(tt *testing.T) {
	t := onServer(tt)
	full := func(t *rig) { t.do("CONFIG", "SET", "maxmemory", 1) }
	t.fresh("a claim", func(t *rig) {
		states := map[string]struct {
			prepare func(t *rig)
			claim   func(t *rig) Claim
		}{
			"of a new job":   {func(t *rig) {}, func(t *rig) Claim { return t.claim(0) }},
			"after a run":    {func(t *rig) { t.ran(-1) }, func(t *rig) Claim { return t.claim(0) }},
			"after a gap":    {func(t *rig) { t.ran(-5) }, func(t *rig) Claim { return t.claim(0) }},
			"after a crash":  {func(t *rig) { t.expire(t.win(t.claim(-1)).Claim) }, func(t *rig) Claim { return t.claim(0) }},
			"of a rerun":     {func(t *rig) { t.expire(t.win(t.claim(0)).Claim) }, func(t *rig) Claim { return t.claim(0, reruns) }},
			"of a held lock": {func(t *rig) { t.win(t.claim(-1)) }, func(t *rig) Claim { return t.claim(0, overlap("queue")) }},
			"by hand":        {func(t *rig) {}, func(t *rig) Claim { return t.manual() }},
			"by hand, held":  {func(t *rig) { t.win(t.claim(0)) }, func(t *rig) Claim { return t.manual() }},
		}
		for name, s := range states {
			t.fresh(name, func(t *rig) {
				s.prepare(t)
				c := s.claim(t)
				before := t.dump()
				full(t)
				err := t.led.Claim(t.ctx(), []Claim{c})[0].Err
				t.do("CONFIG", "SET", "maxmemory", 0)
				if !errors.Is(err, locking.ErrUnavailable) {
					t.Errorf("Claim() = %v, want ErrUnavailable", err)
				}
				if after := t.dump(); after != before {
					t.Errorf("a claim that was refused changed the ledger from\n%sto\n%s", before, after)
				}
				if d := t.ask(c); d.Answer != Won && d.Answer != Held {
					t.Errorf("Claim() = %q once there is memory, want won or held", d.Answer)
				}
			})
		}
	})
	ways := map[string]func(t *rig, g *Grant){
		"finish": func(t *rig, g *Grant) {
			if held := t.end(g, "succeeded"); !held {
				t.Error("Finish() = not held, want held")
			}
		},
		"abandon":                    func(t *rig, g *Grant) { t.abandon(g.Claim) },
		"finish after the lease end": func(t *rig, g *Grant) { t.expire(g.Claim); t.end(g, "failed") },
	}
	for name, way := range ways {
		t.fresh("renew, then "+name, func(t *rig) {
			g := t.win(t.claim(0))
			full(t)
			defer t.do("CONFIG", "SET", "maxmemory", 0)
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; !a.Renewed || a.Err != nil {
				t.Errorf("Renew() = %+v, want renewed", a)
			}
			way(t, g)
			if n := t.do("EXISTS", "{t}:lock:j"); n != int64(0) {
				t.Error("the lock is still held")
			}
			if s := t.state(); s.Running {
				t.Errorf("State() = %+v, want not running", s)
			}
		})
	}
}

// Tokens are integers of 16 digits; a Lua number printed the usual way loses the last ones.
func TestClaim_TokensAreExact(t *testing.T) {
	onEach(t, func(t *rig) {
		fence := func(key string) int64 {
			n, err := strconv.ParseInt(t.do("GET", key).(string), 10, 64)
			if err != nil {
				t.Fatalf("GET %s: %v, want an integer", key, err)
			}
			return n
		}
		t.fresh("by the clock", func(t *rig) {
			g := t.win(t.claim(0))
			if got := fence("{t}:lock:j:fence"); got != g.Fence || g.Fence < 1e15 {
				t.Errorf("Fence, stored = %d, %d, want the same, of 16 digits", g.Fence, got)
			}
			if e := t.only(Scheduled); e.Token != g.Fence {
				t.Errorf("Entry.Token = %d, want %d", e.Token, g.Fence)
			}
		})
		t.fresh("by the counter, when the clock is behind it", func(t *rig) {
			for _, stored := range []int64{8_999_999_999_999_999, 9_007_199_254_740_989} { // the last below 2^53 - 1
				t.do("SET", "{t}:lock:j:fence", stored)
				c := t.claim(0, kind(Manual), func(c *Claim) { q := t.request(true); c.Request, c.Tick = q.ID, q.Asked() })
				g := t.win(c)
				if got := fence("{t}:lock:j:fence"); g.Fence != stored+1 || got != stored+1 {
					t.Errorf("Fence, stored = %d, %d, want %d", g.Fence, got, stored+1)
				}
				t.end(g, "succeeded")
			}
		})
		t.fresh("by what the caller saw, when Redis forgot and its clock is behind", func(t *rig) {
			const seen = 8_999_999_999_999_990
			if g := t.win(t.claim(0, func(c *Claim) { c.Floor = seen })); g.Fence != seen+1 {
				t.Errorf("Fence = %d, want %d", g.Fence, int64(seen+1))
			}
		})
		t.fresh("in the answer to who meets them", func(t *rig) {
			g := t.win(t.claim(-1))
			if d := t.want("held skipped", t.claim(0)); d.Fence != g.Fence {
				t.Errorf("Fence = %d, want the holder's, %d", d.Fence, g.Fence)
			}
		})
		t.fresh("they rise over every way a run can end", func(t *rig) {
			var last int64
			for n := -8; n <= 0; n++ {
				g := t.win(t.claim(n))
				if g.Fence <= last {
					t.Errorf("Fence = %d at tick %d, want above %d", g.Fence, n, last)
				}
				last = g.Fence
				switch (n + 8) % 4 {
				case 0:
					t.end(g, "failed")
				case 1:
					t.expire(g.Claim)
				case 2:
					t.expire(g.Claim)
					t.do("DEL", "{t}:lock:j:fence") // evicted
				case 3:
					t.do("FLUSHALL")
				}
			}
		})
	})
}
