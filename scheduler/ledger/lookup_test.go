package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// recent is what Recent knows of the jobs, one line an entry, sorted.
func (r *rig) recent(jobs []string, n int64) [][]string {
	r.Helper()
	all, now, err := r.led.Recent(r.ctx(), jobs, n)
	if err != nil {
		r.Fatalf("Recent(%q, %d) = %v, want no error", jobs, n, err)
	}
	if apart := r.now().Sub(now); apart < 0 || apart > 5*time.Second {
		r.Errorf("Recent() says it is %v, want Redis' clock", now)
	}
	out := make([][]string, len(all))
	for i, entries := range all {
		for _, e := range entries {
			out[i] = append(out[i], fmt.Sprintf("%s %d %s", e.Job, r.nth(e.Tick), e.Outcome))
		}
		slices.Sort(out[i])
	}
	return out
}

func TestLedger_Recent(t *testing.T) {
	onEach(t, func(t *rig) {
		ofK := func(c *Claim) { c.Job, c.Lock = "k", "k" }
		t.fresh("every job has its own, in the order of the jobs", func(t *rig) {
			t.ran(-2)
			t.win(t.claim(-1))
			t.want("held skipped", t.claim(0))
			t.ran(0, ofK)
			got := t.recent([]string{"k", "none", "j"}, 8)
			want := [][]string{{"k 0 succeeded"}, nil, {"j -1 running", "j -2 succeeded", "j 0 skipped"}}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("Recent(k, none, j) = %q, want %q", got, want)
			}
		})
		t.fresh("only the end of it is read, and runs are whole", func(t *rig) {
			for n := -9; n <= 0; n++ {
				t.ran(n)
			}
			got, want := t.recent([]string{"j"}, 4)[0], []string{"j -1 succeeded", "j 0 succeeded"}
			if !slices.Equal(got, want) {
				t.Errorf("Recent(j, 4) = %q, want %q", got, want)
			}
		})
		t.fresh("a run whose lease ended is lost, whatever the record says", func(t *rig) {
			g := t.win(t.claim(0))
			t.expire(g.Claim)
			if got := t.recent([]string{"j"}, 8)[0]; !slices.Equal(got, []string{"j 0 lost"}) {
				t.Errorf("Recent(j) = %q, want the run lost", got)
			}
		})
		t.fresh("no jobs have none", func(t *rig) {
			if got := t.recent(nil, 8); len(got) != 0 {
				t.Errorf("Recent(no jobs) = %q, want none", got)
			}
		})
	})
}

func TestLedger_Run(t *testing.T) {
	onEach(t, func(t *rig) {
		g := t.win(t.claim(-1))
		if e, err := t.led.Run(t.ctx(), g.Claim.Run); err != nil || e.Run != g.Claim.Run || e.Outcome != OutcomeRunning || e.Job != "j" {
			t.Errorf("Run(%q) = %+v, %v, want running", g.Claim.Run, e, err)
		}
		t.end(g, "failed")
		t.ran(0)
		if e, err := t.led.Run(t.ctx(), g.Claim.Run); err != nil || e.Run != g.Claim.Run || e.Outcome != "failed" {
			t.Errorf("Run(%q) = %+v, %v, want failed", g.Claim.Run, e, err)
		}
		if e, err := t.led.Run(t.ctx(), "nobody's"); !errors.Is(err, ErrNoRun) {
			t.Errorf("Run of an unknown id = %+v, %v, want %v", e, err, ErrNoRun)
		}
	})
}

func TestLedger_Answered(t *testing.T) {
	onEach(t, func(t *rig) {
		answered := func(t *rig, q Request) (Entry, bool) {
			t.Helper()
			e, ok, err := t.led.Answered(t.ctx(), q)
			if err != nil {
				t.Fatalf("Answered(%q) = %v, want no error", q.ID, err)
			}
			return e, ok
		}
		t.fresh("by the run that it became, also once that has ended", func(t *rig) {
			other, q := t.request(false), t.request(false)
			if e, ok := answered(t, q); ok {
				t.Errorf("Answered() before anybody took it = %+v, want nothing", e)
			}
			g := t.win(t.answering(q))
			if e, ok := answered(t, q); !ok || e.Run != g.Claim.Run || e.Token != g.Fence || e.Host != "a" {
				t.Errorf("Answered() = %+v, %t, want run %s under %d on a", e, ok, g.Claim.Run, g.Fence)
			}
			t.end(g, "succeeded")
			if e, ok := answered(t, q); !ok || e.Run != g.Claim.Run || e.Outcome != "succeeded" {
				t.Errorf("Answered() after the end = %+v, %t, want run %s succeeded", e, ok, g.Claim.Run)
			}
			if e, ok := answered(t, other); ok {
				t.Errorf("Answered() of another request = %+v, want nothing", e)
			}
		})
		t.fresh("by the reason that there is none", func(t *rig) {
			t.win(t.claim(0))
			q := t.request(false)
			t.want("held skipped", t.answering(q))
			if e, ok := answered(t, q); !ok || e.Run != "" || e.Outcome != OutcomeSkipped || e.Reason != "held by a" {
				t.Errorf("Answered() = %+v, %t, want skipped: held by a", e, ok)
			}
		})
		t.fresh("also when Redis' clock stepped back in between", func(t *rig) {
			q := t.request(false)
			t.do("XADD", "{t}:job:j:skips", q.Asked().Add(-clockSlack/2).UnixMilli(), "outcome", "skipped", "request", q.ID)
			if _, ok := answered(t, q); !ok {
				t.Error("Answered() found nothing, want the answer that is older by its id")
			}
		})
		t.fresh("an id that is none is refused", func(t *rig) {
			if e, ok, err := t.led.Answered(t.ctx(), Request{ID: "x", Job: "j"}); err == nil {
				t.Errorf("Answered of id x = %+v, %t, want an error", e, ok)
			}
		})
	})
}
