package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/locking"
)

// Keys that hold something else were not written by this package: the error names the key,
// and nothing is overwritten or deleted.
func TestLedger_ForeignKeys(t *testing.T) {
	calls := map[string]func(t *rig) error{
		"claim": func(t *rig) error { return t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err },
		"claim held": func(t *rig) error {
			return t.led.Claim(t.ctx(), []Claim{t.claim(0, overlap("replace"))})[0].Err
		},
		"claim by hand": func(t *rig) error {
			c := t.claim(0, kind(Manual), func(c *Claim) { c.Request = "1-1" })
			return t.led.Claim(t.ctx(), []Claim{c})[0].Err
		},
		"claim after": func(t *rig) error { // a run that died, and ticks nobody claimed
			return t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err
		},
		"finish": func(t *rig) error {
			g := &Grant{Claim: t.claim(0)}
			_, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "failed", Output: []byte("x")})
			return err
		},
		"abandon": func(t *rig) error { c := t.claim(0); return t.led.Abandon(t.ctx(), &c, "why") },
		"beat":    func(t *rig) error { _, err := t.led.Beat(t.ctx(), Host{Name: "a"}, "x", "0"); return err },
		"history": func(t *rig) error { _, err := t.led.History(t.ctx(), Query{Jobs: []string{"j"}}); return err },
		"state": func(t *rig) error { // of a job it is that job's, of the fleet everybody's
			states, err := t.led.State(t.ctx(), []string{"nobody", "j"})
			if err != nil {
				return err
			}
			if states[0].Err != nil {
				t.Errorf("State() = %v of a job whose keys are as they should be", states[0].Err)
			}
			return states[1].Err
		},
		"cursors": func(t *rig) error {
			cursors, _, err := t.led.Cursors(t.ctx(), []string{"nobody", "j"})
			if err != nil || cursors[0].Err != nil {
				t.Errorf("Cursors() = %v, %v, want the error with the job it is of", cursors, err)
			}
			return cursors[1].Err
		},
		"recent": func(t *rig) error {
			t.ran(0, ofJob("k"), onLock("k"))
			if all, _, err := t.led.Recent(t.ctx(), []string{"j", "k"}, 8); err != nil || len(all[0]) != 0 || len(all[1]) != 1 {
				t.Errorf("Recent() = %v, %v, want what there is of k", all, err)
			}
			return t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err
		},
		"taken":  func(t *rig) error { _, err := t.led.Taken(t.ctx(), "tb", time.Unix(60, 0)); return err },
		"hosts":  func(t *rig) error { _, err := t.led.Hosts(t.ctx()); return err },
		"ask":    func(t *rig) error { _, err := t.led.Ask(t.ctx(), Request{Job: "j"}); return err },
		"output": func(t *rig) error { _, err := t.led.Output(t.ctx(), "run1"); return err },
	}
	prepare := map[string]func(t *rig){
		"claim held":  func(t *rig) { t.win(t.claim(-1)) },
		"claim after": func(t *rig) { t.expire(t.win(t.claim(-5)).Claim) },
	}
	keys := map[string][]string{
		"{t}:lock:j":       {"claim", "claim by hand", "claim after"},
		"{t}:lock:j:fence": {"claim", "claim after"},
		"{t}:lock:j:end":   {"claim held"},
		"{t}:lock:j:wait":  {"claim held"},
		"{t}:job:j":        {"claim", "finish", "abandon", "state", "cursors"},
		"{t}:job:j:runs":   {"recent", "claim", "claim by hand", "claim after", "finish", "abandon", "history", "state"},
		"{t}:job:j:fails":  {"claim after", "finish", "abandon", "history"},
		"{t}:job:j:skips":  {"claim held", "claim by hand", "abandon", "history", "state"},
		"{t}:run:run1":     {"claim", "finish", "abandon", "output"},
		"{t}:out:run1":     {"finish", "output"},
		"{t}:drain":        {"claim", "beat"},
		"{t}:paused":       {"claim", "beat", "state"},
		"{t}:requests":     {"claim by hand", "beat", "ask"},
		"{t}:open":         {"abandon", "beat"},
		"{t}:hosts":        {"beat", "hosts"},
		"{t}:epoch":        {"claim", "beat"},
		"{t}:taken:tb:60":  {"taken"},
	}
	onEach(t, func(t *rig) {
		for key, fails := range keys {
			for _, call := range fails {
				t.fresh(call+", "+key, func(t *rig) {
					if p := prepare[call]; p != nil {
						p(t)
						t.do("DEL", key)
					} else {
						t.runs = 0 // the run is run1
					}
					t.do("ZADD", key, 1, "theirs")
					err := calls[call](t)
					if !errors.Is(err, locking.ErrConflict) || !strings.Contains(err.Error(), key) {
						t.Fatalf("%s with a foreign %s: %v, want an error that matches ErrConflict and names the key", call, key, err)
					}
					if n := t.do("ZCARD", key); n != int64(1) {
						t.Errorf("%s was overwritten", key)
					}
					if key != "{t}:lock:j" && prepare[call] == nil && t.do("EXISTS", "{t}:lock:j") != int64(0) {
						t.Errorf("%s failed and left a lock behind", call)
					}
				})
			}
		}
	})
}

// Renewing and freeing a lock must not fail because of a key beside it.
func TestLedger_ForeignKeysBesideALease(t *testing.T) {
	onEach(t, func(t *rig) {
		beside := []string{"{t}:job:j", "{t}:job:j:runs", "{t}:run:run1", "{t}:lock:j:end", "{t}:lock:j:wait", "{t}:epoch"}
		for _, key := range beside {
			t.fresh(key, func(t *rig) {
				t.runs = 0
				g := t.win(t.claim(0))
				t.do("DEL", key)
				t.do("ZADD", key, 1, "theirs")
				if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; !a.Renewed || a.Err != nil {
					t.Errorf("Renew() = %+v, want renewed", a)
				}
				_, _ = t.led.Finish(t.ctx(), g, Ending{Outcome: "succeeded"})
				if n := t.do("EXISTS", "{t}:lock:j"); n != int64(0) {
					t.Error("the lock is still held after Finish")
				}
				if n := t.do("ZCARD", key); n != int64(1) {
					t.Errorf("%s was overwritten", key)
				}
			})
		}
		t.fresh("a foreign value on the lock itself is a lost lease", func(t *rig) {
			g := t.win(t.claim(0))
			t.do("DEL", "{t}:lock:j")
			t.do("ZADD", "{t}:lock:j", 1, "theirs")
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; a.Renewed || a.Err != nil {
				t.Errorf("Renew() = %+v, want not renewed", a)
			}
			if held := t.end(g, "succeeded"); held {
				t.Error("Finish() = held, want not")
			}
		})
	})
}

func TestClaim_CorruptLock(t *testing.T) {
	onEach(t, func(t *rig) {
		for name, c := range map[string]struct {
			args []any
			key  string
		}{
			"no lease":               {[]any{"SET", "{t}:lock:j", "somebody", "PX", 9000}, "{t}:lock:j"},
			"a lease without expiry": {[]any{"SET", "{t}:lock:j", "ab|7|9000|x"}, "{t}:lock:j"},
			"a fence of letters":     {[]any{"SET", "{t}:lock:j:fence", "abc"}, "{t}:lock:j:fence"},
			"a fence too large":      {[]any{"SET", "{t}:lock:j:fence", "9007199254740991"}, "{t}:lock:j:fence"},
		} {
			t.fresh(name, func(t *rig) {
				t.ran(-5)
				t.do(c.args...)
				before := t.do("GET", c.key)
				for range 2 { // the second finds no gap left to record
					err := t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err
					if !errors.Is(err, locking.ErrConflict) || !strings.Contains(err.Error(), c.key+" ") {
						t.Fatalf("Claim() = %v, want ErrConflict that names %s", err, c.key)
					}
				}
				if after := t.do("GET", c.key); after != before {
					t.Errorf("%s = %v, want it untouched: %v", c.key, after, before)
				}
				if n := t.do("XLEN", "{t}:job:j:skips"); n != int64(0) && n != int64(1) {
					t.Errorf("XLEN skips = %v after two claims, want the gap once at most", n)
				}
				if strings.HasSuffix(c.key, "fence") && t.do("EXISTS", "{t}:lock:j") != int64(0) {
					t.Error("a lock without a token was left behind")
				}
			})
		}
	})
}

func TestClaim_NewerFormat(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a newer major version is not claimed, and says so", func(t *rig) {
			t.ran(-1)
			g := t.win(t.claim(-1, kind(Manual), func(c *Claim) { c.Request = t.request(true).ID; c.Tick = t.now() }))
			t.do("HSET", "{t}:job:j", "v", "2", "novel", "x")
			err := t.led.Claim(t.ctx(), []Claim{t.claim(0)})[0].Err
			if err == nil || !strings.Contains(err.Error(), "{t}:job:j has format 2, this host knows 1") {
				t.Errorf("Claim() = %v, want both formats and the key", err)
			}
			if errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("Claim() = %v, want no ErrUnavailable: asking again is of no use", err)
			}
			if _, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "succeeded"}); err == nil || t.do("EXISTS", "{t}:lock:j") != int64(0) {
				t.Errorf("Finish() = %v, want an error, and the lock freed all the same", err)
			}
		})
		t.fresh("a newer minor version is, and its fields are kept", func(t *rig) {
			t.ran(-1)
			t.do("HSET", "{t}:job:j", "v", "1.7", "novel", "x")
			t.ran(0)
			if rec := t.record(); rec["v"] != "1.7" || rec["novel"] != "x" {
				t.Errorf("record = %v, want v 1.7 and novel x", rec)
			}
		})
	})
}

// A server that lost its scripts answers NOSCRIPT, in a pipeline to each call by itself.
func TestLedger_ScriptFlush(t *testing.T) {
	onEach(t, func(t *rig) {
		t.do("SCRIPT", "FLUSH")
		job := func(name string) func(*Claim) { return func(c *Claim) { c.Job, c.Lock = name, name } }
		claims := []Claim{t.claim(0, job("x")), t.claim(0, job("y")), t.claim(0, job("x"), by("b"))}
		var answers []Answer
		var grants []*Grant
		for i, d := range t.led.Claim(t.ctx(), claims) {
			if d.Err != nil {
				t.Fatalf("Claim() = %v, want no error", d.Err)
			}
			answers = append(answers, d.Answer)
			if d.Answer == Won {
				grants = append(grants, &Grant{Claim: claims[i], Fence: d.Fence})
			}
		}
		if want := []Answer{Won, Won, Already}; !slices.Equal(answers, want) {
			t.Fatalf("Claim() = %v, want %v", answers, want)
		}
		t.do("SCRIPT", "FLUSH")
		for i, a := range t.led.Renew(t.ctx(), grants) {
			if !a.Renewed || a.Err != nil {
				t.Errorf("Renew()[%d] = %+v, want renewed", i, a)
			}
		}
		t.do("SCRIPT", "FLUSH")
		if held := t.end(grants[0], "succeeded"); !held {
			t.Error("Finish() = not held, want held")
		}
		t.do("SCRIPT", "FLUSH")
		t.abandon(grants[1].Claim)
	})
}

// A finish that is refused because of a key leaves nothing of the outcome behind, or the one that is
// sent when the key is gone would count as a repetition.
func TestFinish_RefusedLeavesNothing(t *testing.T) {
	onEach(t, func(t *rig) {
		for _, key := range []string{"out", "run"} {
			t.fresh("because of "+key, func(t *rig) {
				g := t.win(t.claim(0))
				foreign := "{t}:" + key + ":" + g.Claim.Run
				t.do("DEL", foreign)
				t.do("ZADD", foreign, 1, "theirs")
				e := Ending{Outcome: "succeeded", Attempt: 1, Output: []byte("text")}
				if _, err := t.led.Finish(t.ctx(), g, e); !errors.Is(err, locking.ErrConflict) {
					t.Fatalf("Finish() = %v, want a conflict", err)
				}
				if n := t.do("XLEN", "{t}:job:j:runs"); n != int64(1) {
					t.Errorf("%v entries after a refused finish, want the start alone", n)
				}
				t.do("DEL", foreign)
				if _, err := t.led.Finish(t.ctx(), g, e); err != nil {
					t.Fatal(err)
				}
				if n := t.do("XLEN", "{t}:job:j:runs"); n != int64(2) {
					t.Errorf("%v entries after the next one, want a start and an end", n)
				}
				if !t.hasOutput(g) {
					t.Error("the output is missing")
				}
			})
		}
	})
}
