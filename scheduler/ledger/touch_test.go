package ledger

import (
	"testing"
	"time"
)

func (r *rig) touch(maxAge time.Duration) {
	r.Helper()
	if err := r.led.Touch(r.ctx(), []string{"j", "unknown"}, maxAge, func(string) time.Duration { return 48 * time.Hour }); err != nil {
		r.Fatalf("Touch() = %v, want no error", err)
	}
}

func TestTouch_KeepsWhatThereIs(t *testing.T) {
	onEach(t, func(t *rig) {
		g := t.win(t.claim(-1, func(c *Claim) { c.Expire = time.Hour }))
		t.want("held skipped", t.claim(0))
		if _, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "failed", Attempt: 1, Output: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		t.touch(time.Hour)
		run := g.Claim.Run
		for _, k := range []string{"{t}:job:j", "{t}:job:j:runs", "{t}:job:j:fails", "{t}:job:j:skips", "{t}:run:" + run, "{t}:out:" + run} {
			if ttl := t.client.PTTL(t.ctx(), k).Val(); ttl < 47*time.Hour || ttl > 48*time.Hour {
				t.Errorf("PTTL %s = %v, want 48 h", k, ttl)
			}
		}
		if n := t.do("EXISTS", "{t}:job:unknown"); n != int64(0) {
			t.Error("Touch made a record of a job that has none")
		}
		if err := t.led.Touch(t.ctx(), nil, 0, nil); err != nil {
			t.Errorf("Touch(none) = %v, want no error", err)
		}
		t.do("SET", "{t}:job:unknown", "theirs")
		t.touch(time.Hour) // the claim of that job tells
		t.wantHistory("-1 failed scheduled on a", "0 skipped")
	})
}

// What is older than the history goes back is dropped, with all that is kept of a run.
func TestTouch_DropsWhatIsOld(t *testing.T) {
	const age = 60 * time.Millisecond
	runKeys := func(t *rig, want ...*Grant) {
		t.Helper()
		kept := map[string]bool{}
		for _, g := range want {
			kept["{t}:run:"+g.Claim.Run], kept["{t}:out:"+g.Claim.Run] = true, true
		}
		for _, k := range t.keys() {
			if len(k) > 8 && (k[:8] == "{t}:run:" || k[:8] == "{t}:out:") && !kept[k] {
				t.Errorf("%s is left", k)
			}
			delete(kept, k)
		}
		if len(kept) > 0 {
			t.Errorf("%v are gone", kept)
		}
	}
	onEach(t, func(t *rig) {
		ran := func(t *rig, n int, outcome string) *Grant {
			t.Helper()
			g := t.win(t.claim(n))
			if _, err := t.led.Finish(t.ctx(), g, Ending{Outcome: outcome, Attempt: 1, Output: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			return g
		}
		pass := func() { time.Sleep(age + 20*time.Millisecond) }
		t.fresh("runs, failures and what nobody ran", func(t *rig) {
			ran(t, -9, "failed")
			t.do("XTRIM", "{t}:job:j:runs", "MAXLEN", 0) // as if others had followed: a failure is kept longer
			ran(t, -8, "succeeded")
			ran(t, -7, "failed")
			g := t.win(t.claim(-6))
			t.want("held skipped", t.claim(-5))
			t.end(g, "lost")
			pass()
			fail, ok := ran(t, -4, "failed"), ran(t, -3, "succeeded")
			g = t.win(t.claim(-2))
			t.want("held skipped", t.claim(-1))
			t.touch(age)
			t.wantHistory("-4 failed scheduled on a", "-3 succeeded scheduled on a", "-2 running scheduled on a", "-1 skipped")
			if n := t.record()["runs"]; n != "4" { // with the one that was trimmed behind its back
				t.Errorf("the record counts %s runs, want 4", n)
			}
			t.end(g, "succeeded")
			t.do("SET", "{t}:out:"+g.Claim.Run, "x")
			runKeys(t, fail, ok, g)
		})
		t.fresh("not the newest run, nor the newest of what nobody ran", func(t *rig) {
			ran(t, -5, "failed")
			g := t.win(t.claim(-4))
			t.want("held skipped", t.claim(-3))
			t.do("SET", "{t}:out:"+g.Claim.Run, "x")
			t.end(g, "failed")
			pass()
			t.touch(age)
			t.wantHistory("-4 failed scheduled on a", "-3 skipped")
			runKeys(t, g)
			t.touch(age)
			t.wantHistory("-4 failed scheduled on a", "-3 skipped")
		})
		t.fresh("nothing where no age is given, or of a record that a newer host wrote", func(t *rig) {
			ran(t, -5, "failed")
			ran(t, -4, "failed")
			pass()
			t.touch(0)
			t.do("HSET", "{t}:job:j", "v", "2.1")
			t.touch(age)
			t.wantHistory("-5 failed scheduled on a", "-4 failed scheduled on a")
		})
		t.fresh("of a long history a part at a time", func(t *rig) {
			ran(t, -9, "succeeded")
			for range 3000 {
				t.do("XADD", "{t}:job:j:runs", "*", "ev", "end", "run", "old", "outcome", "succeeded")
			}
			pass()
			ran(t, -8, "succeeded")
			for _, least := range []int64{500, 2, 2} {
				t.touch(age)
				if n, _ := t.do("XLEN", "{t}:job:j:runs").(int64); n < least || n > least+1000 {
					t.Errorf("%d entries are left, want %d or some more", n, least)
				}
			}
			t.wantHistory("-8 succeeded scheduled on a")
		})
	})
}
