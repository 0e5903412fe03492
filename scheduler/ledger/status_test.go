package ledger

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestLedger_State(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("of a job that was never decided", func(t *rig) {
			if s := t.state(); !reflect.DeepEqual(s, JobState{Job: "j"}) {
				t.Errorf("State() = %+v, want only the name", s)
			}
		})
		t.fresh("of a run that goes on, then ended", func(t *rig) {
			g := t.win(t.claim(0))
			s := t.state()
			if !s.Known || !s.Running || s.Holder != "a" || s.HolderRun != g.Claim.Run || s.Token != g.Fence || s.Left <= 0 || s.Left > time.Minute {
				t.Errorf("State() = %+v, want running on a under %d", s, g.Fence)
			}
			if !s.Cursor.Equal(t.tick(0)) || s.Last == nil || s.Last.Outcome != OutcomeRunning {
				t.Errorf("Cursor, Last = %v, %+v, want tick 0, running", s.Cursor, s.Last)
			}
			t.end(g, "failed")
			if s = t.state(); s.Running || s.Holder != "" || s.Last == nil || s.Last.Outcome != "failed" {
				t.Errorf("State() = %+v, want not running, last failed", s)
			}
		})
		t.fresh("of runs that overlap: all that go on, the newest first", func(t *rig) {
			one := t.win(t.claim(-2, parallel))
			two := t.win(t.claim(-1, parallel, by("b")))
			three := t.win(t.claim(0, parallel, func(c *Claim) { c.MaxParallel = 3 }))
			want := func(runs ...*Grant) {
				t.Helper()
				s := t.state()
				ok := len(s.Going) == len(runs)
				for i := range min(len(runs), len(s.Going)) {
					g, r := s.Going[i], runs[i]
					ok = ok && g == Going{r.Claim.Run, r.Claim.Host, Scheduled, r.Claim.Tick.UTC(), r.Won.UTC(), r.Fence}
				}
				if !ok {
					t.Errorf("Going = %+v, want %d runs, the newest first", s.Going, len(runs))
				}
			}
			want(three, two, one)
			t.end(three, "succeeded")
			want(two, one)
			t.expire(two.Claim)
			want(one)
			t.do("HSET", "{t}:job:j", "par:evil", "{", "par:worse", `{"run_lock":5}`)
			want(one)
		})
		t.fresh("whose last is a skip", func(t *rig) {
			t.win(t.claim(-1, func(c *Claim) { c.Job = "k" }))
			t.want("held skipped", t.claim(0))
			if s := t.state(); s.Running || s.Last == nil || s.Last.Outcome != OutcomeSkipped || s.Last.Holder != "a" {
				t.Errorf("State() = %+v, want a last that was skipped for a", s)
			}
		})
		t.fresh("whose lock another job holds now", func(t *rig) {
			g := t.win(t.claim(0, onLock("shared")))
			t.expire(g.Claim)
			t.win(t.claim(0, onLock("shared"), func(c *Claim) { c.Job = "k" }))
			if s := t.state(); s.Running {
				t.Errorf("State() = %+v, want not running: the lease is another's", s)
			}
		})
		t.fresh("paused: the job, or the fleet", func(t *rig) {
			for _, args := range [][]any{
				{"HSET", "{t}:job:j", "pause_from", t.tick(-1).UnixMilli()},
				{"HSET", "{t}:paused", "from", t.tick(-1).UnixMilli(), "until", t.tick(9).UnixMilli()},
			} {
				t.do("FLUSHALL")
				t.do(args...)
				if s := t.state(); !s.Paused {
					t.Errorf("State().Paused after %v = false, want true", args)
				}
			}
			t.do("HSET", "{t}:paused", "from", t.tick(-2).UnixMilli(), "until", t.tick(-1).UnixMilli())
			if s := t.state(); s.Paused {
				t.Error("State().Paused after the pause = true, want false")
			}
		})
		t.fresh("of several, in their order, or of none", func(t *rig) {
			t.ran(0)
			got, err := t.led.State(t.ctx(), []string{"x", "j", "y"})
			if err != nil || len(got) != 3 || got[0].Job != "x" || !got[1].Known || got[2].Known {
				t.Errorf("State() = %+v, %v, want x, j, y, of which j is known", got, err)
			}
			if got, err = t.led.State(t.ctx(), nil); got != nil || err != nil {
				t.Errorf("State(none) = %v, %v, want nothing", got, err)
			}
		})
	})
}

func TestLedger_Cursors(t *testing.T) {
	onEach(t, func(t *rig) {
		t.ran(-3)
		got, now, err := t.led.Cursors(t.ctx(), []string{"x", "j"})
		if err != nil || len(got) != 2 || !got[0].Tick.IsZero() || !got[1].Tick.Equal(t.tick(-3)) {
			t.Errorf("Cursors() = %v, %v, want none, tick -3", got, err)
		}
		if d := t.now().Sub(now); d < 0 || d > 5*time.Second {
			t.Errorf("Cursors() says it is %v, want Redis' clock", now)
		}
		if got, _, err = t.led.Cursors(t.ctx(), nil); len(got) != 0 || err != nil {
			t.Errorf("Cursors(none) = %v, %v, want nothing", got, err)
		}
	})
}

func TestLedger_Taken(t *testing.T) {
	onEach(t, func(t *rig) {
		at := func(index, n int, job string) Claim {
			return t.claim(n, func(c *Claim) { c.Job, c.Lock, c.Table, c.Index = job, "shared", "tb", index })
		}
		t.win(at(0, 0, "x"))                                                              // won
		t.want("held skipped", at(9, 0, "y"))                                             // skipped
		t.want("held", func() Claim { c := at(2, 0, "z"); c.Kind = Misfire; return c }()) // waits: not decided
		t.want("held skipped", at(-1, 0, "u"))                                            // has no place in the table
		t.want("early", at(3, 1, "v"))
		taken, err := t.led.Taken(t.ctx(), "tb", t.tick(0))
		if err != nil {
			t.Fatalf("Taken() = %v, want no error", err)
		}
		for i := -1; i < 40; i++ {
			if got, want := taken(i), i == 0 || i == 9; got != want {
				t.Errorf("taken(%d) = %v, want %v", i, got, want)
			}
		}
		for _, other := range []func() (func(int) bool, error){
			func() (func(int) bool, error) { return t.led.Taken(t.ctx(), "tb", t.tick(1)) },
			func() (func(int) bool, error) { return t.led.Taken(t.ctx(), "another table", t.tick(0)) },
		} {
			if taken, err := other(); err != nil || taken(0) {
				t.Errorf("Taken() of another instant or table has tick 0, %v, want not", err)
			}
		}
	})
}

func TestLedger_History(t *testing.T) {
	onEach(t, func(t *rig) {
		t.ran(-4)
		t.end(t.win(t.claim(-2)), "failed")
		g := t.win(t.claim(0))
		ticks := func(q Query) (out []int) {
			entries, err := t.led.History(t.ctx(), q)
			if err != nil {
				t.Fatalf("History(%+v) = %v, want no error", q, err)
			}
			for _, e := range entries {
				out = append(out, t.nth(e.Tick))
			}
			return out
		}
		j := []string{"j"}
		for what, c := range map[string]struct {
			q    Query
			want []int
		}{
			// Runs by when they were won, just now; the gaps by their ticks.
			"newest first":      {Query{Jobs: j}, []int{0, -2, -4, -1, -3}},
			"the newest two":    {Query{Jobs: j, Limit: 2}, []int{0, -2}},
			"more than are":     {Query{Jobs: j, Limit: 99}, []int{0, -2, -4, -1, -3}},
			"one outcome":       {Query{Jobs: j, Outcome: "failed"}, []int{-2}},
			"missed":            {Query{Jobs: j, Outcome: OutcomeMissed, Limit: 1}, []int{-1}},
			"running":           {Query{Jobs: j, Outcome: OutcomeRunning}, []int{0}},
			"since":             {Query{Jobs: j, Since: t.tick(-1)}, []int{0, -2, -4, -1}},
			"of an unknown job": {Query{Jobs: []string{"x"}}, nil},
			"of no job":         {Query{}, nil},
			"of several":        {Query{Jobs: []string{"x", "j"}, Limit: 1}, []int{0}},
		} {
			if got := ticks(c.q); !slices.Equal(got, c.want) {
				t.Errorf("%s: History(%+v) = %v, want %v", what, c.q, got, c.want)
			}
		}
		t.expire(g.Claim)
		if got := ticks(Query{Jobs: j, Outcome: OutcomeLost}); !slices.Equal(got, []int{0}) {
			t.Errorf("History(lost) = %v, want the run whose lease ended", got)
		}
	})
}
