package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"rota/locking"
)

func TestStandings_SayWhatIsLeftOfAJob(t *testing.T) {
	onEach(t, func(t *rig) {
		standing := func(t *rig) Standing {
			t.Helper()
			s, err := t.led.Standings(t.ctx(), []string{"j"})
			if err != nil || len(s) != 1 || s[0].Job != "j" || s[0].Err != nil {
				t.Fatalf("Standings() = %+v, %v, want one of j", s, err)
			}
			return s[0]
		}
		want := func(t *rig, text string) {
			t.Helper()
			s := standing(t)
			got := ""
			add := func(what string, at time.Time) {
				if !at.IsZero() {
					got += fmt.Sprintf("%s %d, ", what, t.nth(at))
				}
			}
			add("cursor", s.Cursor)
			add("waits", s.Waiting)
			add("open", s.Open)
			add("run", s.RunTick)
			if s.Left > 0 {
				got += "held"
			}
			if s.Crashed {
				got += "crashed"
			}
			if s.Crashed && !s.Again {
				got += " for good"
			}
			if got != text {
				t.Errorf("Standings() says %q, want %q: %+v", got, text, s)
			}
		}
		t.fresh("no record", func(t *rig) { want(t, "") })
		t.fresh("a run that goes on", func(t *rig) {
			g := t.win(t.claim(0))
			want(t, "cursor 0, run 0, held")
			if s := standing(t); s.Left > time.Minute || s.Left < 50*time.Second || s.Run != g.Claim.Run {
				t.Errorf("Standings() = %+v, want run %s with a minute left", s, g.Claim.Run)
			}
			t.do("PEXPIRE", "{t}:lock:j", 3600_000)
			if s := standing(t); s.Left != time.Minute {
				t.Errorf("Left = %s after Redis' clock stepped back, want the lease's whole minute", s.Left)
			}
			t.end(g, "failed")
			want(t, "cursor 0, run 0, ")
		})
		t.fresh("a tick that waits", func(t *rig) {
			g := t.win(t.claim(-1, overlap("queue")))
			t.want("held waiting", t.claim(0, overlap("queue")))
			want(t, "cursor 0, waits 0, run -1, held")
			t.end(g, "succeeded")
			want(t, "cursor 0, waits 0, run -1, ")
			t.ran(0, overlap("queue"))
			want(t, "cursor 0, run 0, ")
		})
		t.fresh("a tick given back", func(t *rig) {
			c := t.claim(0)
			t.win(c)
			t.abandon(c)
			want(t, "cursor 0, open 0, run 0, ")
		})
		t.fresh("a run whose lease ended, before and after somebody recorded it", func(t *rig) {
			g := t.win(t.claim(-1))
			t.expire(g.Claim)
			want(t, "cursor -1, run -1, crashed")
			t.do("SET", "{t}:lock:j", "ab12|7|9000|x/j/r", "PX", 9000) // another's
			want(t, "cursor -1, run -1, crashed")
			t.want("held skipped", t.claim(0))
			want(t, "cursor 0, run -1, crashed")
		})
		t.fresh("an interrupted one; a second time; one by hand", func(t *rig) {
			t.end(t.win(t.claim(0, reruns)), "interrupted")
			want(t, "cursor 0, run 0, crashed")
			t.expire(t.win(t.claim(0, reruns)).Claim)
			want(t, "cursor 0, run 0, crashed for good")
			t.expire(t.win(t.manual()).Claim)
			want(t, "cursor 0, run 0, crashed for good")
		})
		t.fresh("a key of another type spoils its own job", func(t *rig) {
			t.win(t.claim(0))
			t.do("SET", "{t}:job:k", "x")
			s, err := t.led.Standings(t.ctx(), []string{"k", "j"})
			if err != nil || !errors.Is(s[0].Err, locking.ErrConflict) || s[1].Err != nil || s[1].Left == 0 {
				t.Errorf("Standings() = %+v, %v, want a conflict of k, and j held", s, err)
			}
		})
	})
}
