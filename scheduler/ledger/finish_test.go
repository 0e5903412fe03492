package ledger

import (
	"errors"
	"testing"
	"time"
)

func TestFinish_Records(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("all that its host says", func(t *rig) {
			c := t.claim(0)
			g := t.win(c)
			start := g.Won.Add(3 * time.Millisecond)
			held, err := t.led.Finish(t.ctx(), g, Ending{
				Outcome: "failed", Reason: "exit code 3", ExitCode: new(3), Started: start, Ended: start.Add(1200 * time.Millisecond),
				Attempt: 2, Output: []byte("a\x00b\xff"), CPU: 812345678 * time.Nanosecond, PeakMemoryBytes: 1 << 40,
			})
			if !held || err != nil {
				t.Fatalf("Finish() = %v, %v, want held", held, err)
			}
			e := t.only(Scheduled)
			if e.ExitCode == nil || *e.ExitCode != 3 {
				t.Errorf("ExitCode = %v, want 3", e.ExitCode)
			}
			e.ExitCode, e.id, e.lease, e.word = nil, "", "", 0
			want := Entry{
				Job: "j", Tick: c.Tick.UTC(), Run: c.Run, Kind: Scheduled, Host: "a", Lock: "j", Token: g.Fence, Outcome: "failed",
				Reason: "exit code 3", Won: g.Won, Started: start, Ended: start.Add(1200 * time.Millisecond), Attempt: 2, Definition: "d1",
				CPU: 812345 * time.Microsecond, PeakMemoryBytes: 1 << 40,
			}
			if e != want {
				t.Errorf("History() = %+v\nwant %+v", e, want)
			}
			if out, err := t.led.Output(t.ctx(), c.Run); string(out) != "a\x00b\xff" || err != nil {
				t.Errorf("Output() = %q, %v, want what the run printed", out, err)
			}
		})
		t.fresh("a run that never started has no code", func(t *rig) {
			g := t.win(t.claim(0))
			if _, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "failed", Reason: "no such program"}); err != nil {
				t.Fatal(err)
			}
			if e := t.only(Scheduled); e.ExitCode != nil || !e.Started.IsZero() || e.Attempt != 0 || e.word != reported || e.CPU != 0 || e.PeakMemoryBytes != 0 {
				t.Errorf("History() = %+v, want no code, no start, no usage, and its host's word", e)
			}
		})
		t.fresh("it frees the lock", func(t *rig) {
			g := t.ran(0)
			if n := t.do("EXISTS", "{t}:lock:j"); n != int64(0) {
				t.Errorf("EXISTS lock = %v after Finish, want 0", n)
			}
			if a := t.led.Renew(t.ctx(), []*Grant{g})[0]; a.Renewed {
				t.Error("Renew() = renewed after Finish, want not")
			}
		})
		t.fresh("not of a run that may be alive, until its lease ends", func(t *rig) {
			g := t.win(t.claim(-1, reruns))
			finish := func() bool {
				held, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "interrupted", Attempt: 1, Ended: t.now(), Alive: true})
				if err != nil {
					t.Fatal(err)
				}
				return held
			}
			if !finish() {
				t.Error("Finish() = not held, want held")
			}
			t.unchangedBy("the same once more", func() { finish() })
			t.want("held", t.claim(-1, reruns, by("b")))
			t.want("held skipped", t.claim(0, by("b")))
			t.expire(g.Claim)
			if finish() {
				t.Error("Finish() = held after the lease, want not")
			}
			t.win(t.claim(-1, reruns, by("b")))
			t.wantHistory("-1 interrupted scheduled on a", "-1 running rerun on b", "0 skipped: the run before is still going on a")
		})
		t.fresh("it frees nobody else's", func(t *rig) {
			g := t.win(t.claim(-1))
			t.expire(g.Claim)
			other := t.win(t.claim(0, by("b")))
			t.end(g, "succeeded")
			if a := t.led.Renew(t.ctx(), []*Grant{other})[0]; !a.Renewed {
				t.Error("Renew() of the next holder = not renewed, want renewed")
			}
		})
	})
}

func TestFinish_Output(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("a run that goes on, or printed nothing, has none", func(t *rig) {
			g := t.win(t.claim(0))
			if out, err := t.led.Output(t.ctx(), g.Claim.Run); len(out) != 0 || err != nil {
				t.Errorf("Output() = %q, %v while it runs, want nothing", out, err)
			}
			t.end(g, "succeeded")
			if out, err := t.led.Output(t.ctx(), g.Claim.Run); len(out) != 0 || err != nil {
				t.Errorf("Output() = %q, %v, want nothing", out, err)
			}
		})
		t.fresh("an unknown run is an error of its own", func(t *rig) {
			if _, err := t.led.Output(t.ctx(), "nobody"); !errors.Is(err, ErrNoRun) {
				t.Errorf("Output() = %v, want ErrNoRun", err)
			}
		})
	})
}

// keeping is the same rig with another Options.Keep.
func (r *rig) keeping(runs int) {
	r.Helper()
	led, err := New(r.client, Options{Namespace: "t", Keep: runs})
	if err != nil {
		r.Fatal(err)
	}
	r.led = led
}

// printed wins a tick and ends it with some output.
func (r *rig) printed(n int, outcome string, change ...func(*Claim)) *Grant {
	r.Helper()
	g := r.win(r.claim(n, change...))
	if _, err := r.led.Finish(r.ctx(), g, Ending{Outcome: outcome, Attempt: 1, Ended: r.now(), Output: []byte("text")}); err != nil {
		r.Fatal(err)
	}
	return g
}

// hasOutput tells whether a run's output and its own key are still there; both or neither.
func (r *rig) hasOutput(g *Grant) bool {
	r.Helper()
	out, run := r.do("EXISTS", "{t}:out:"+g.Claim.Run), r.do("EXISTS", "{t}:run:"+g.Claim.Run)
	if out != run {
		r.Errorf("EXISTS out, run of %s = %v, %v, want both or neither", g.Claim.Run, out, run)
	}
	return out == int64(1)
}

func TestFinish_Trims(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("runs beyond keep go, with their output", func(t *rig) {
			t.keeping(3)
			var all []*Grant
			for n := -5; n <= 0; n++ {
				all = append(all, t.printed(n, "succeeded"))
			}
			t.wantHistory("-2 succeeded scheduled on a", "-1 succeeded scheduled on a", "0 succeeded scheduled on a")
			for i, g := range all {
				if got, want := t.hasOutput(g), i >= 3; got != want {
					t.Errorf("output of run %d kept = %v, want %v", i, got, want)
				}
			}
		})
		t.fresh("failures are kept longer than runs, with their output", func(t *rig) {
			t.keeping(2)
			failed := t.printed(-5, "failed")
			for n := -4; n <= 0; n++ {
				t.printed(n, "succeeded")
			}
			t.wantHistory("-5 failed scheduled on a", "-1 succeeded scheduled on a", "0 succeeded scheduled on a")
			if !t.hasOutput(failed) {
				t.Error("the output of a failure that is still listed is gone")
			}
		})
		t.fresh("or shorter: the list that drops a run last deletes its keys", func(t *rig) {
			t.keeping(failsKept + 3)
			var all []*Grant
			for n := -failsKept - 9; n <= 0; n++ { // ten more than failures are kept
				all = append(all, t.printed(n, "failed"))
			}
			left := 0
			for range all { // beyond a quarter more they go, down to keep
				if left++; left > failsKept+3+(failsKept+3)/4 {
					left = failsKept + 3
				}
			}
			for i, g := range all {
				if got, want := t.hasOutput(g), i >= len(all)-left; got != want {
					t.Errorf("output of run %d of %d kept = %v, want %v", i, len(all), got, want)
				}
			}
			if n := t.do("XLEN", "{t}:job:j:fails"); n != int64(failsKept) {
				t.Errorf("XLEN fails = %v, want %d", n, failsKept)
			}
		})
		t.fresh("a run that was lost and reported late is one run", func(t *rig) {
			t.keeping(2)
			lost := t.win(t.claim(-4))
			t.expire(lost.Claim)
			t.printed(-3, "succeeded")
			if _, err := t.led.Finish(t.ctx(), lost, Ending{Outcome: "succeeded", Attempt: 1, Output: []byte("late")}); err != nil {
				t.Fatal(err)
			}
			t.wantHistory("-4 succeeded scheduled on a", "-3 succeeded scheduled on a")
			t.printed(-2, "succeeded") // drops the start of -4
			if !t.hasOutput(lost) {
				t.Error("the output is gone while its entry is there")
			}
			t.printed(-1, "succeeded")
			t.printed(0, "succeeded")
			t.wantHistory("-1 succeeded scheduled on a", "0 succeeded scheduled on a")
			if t.hasOutput(lost) {
				t.Error("the output outlived its entry")
			}
		})
		t.fresh("an outcome that is delivered after Redis forgot is kept", func(t *rig) {
			g := t.win(t.claim(-1))
			t.do("FLUSHALL")
			t.end(g, "succeeded")
			t.wantHistory("-1 succeeded scheduled on a: reported late")
			t.ran(0)
			t.wantHistory("-1 succeeded scheduled on a: reported late", "0 succeeded scheduled on a")
		})
		t.fresh("a run that outlasts all that are kept is still recorded", func(t *rig) {
			t.keeping(2)
			long := t.win(t.claim(-5, parallel))
			for n := -4; n <= 0; n++ {
				t.printed(n, "succeeded", parallel)
			}
			t.end(long, "succeeded")
			t.wantHistory("-5 succeeded scheduled on a", "-1 succeeded scheduled on a", "0 succeeded scheduled on a")
		})
		t.fresh("what was given back counts for nothing", func(t *rig) {
			t.keeping(2)
			t.ran(-2)
			t.ran(-1)
			for range 5 {
				c := t.claim(0)
				t.win(c)
				t.abandon(c)
			}
			t.ran(0)
			t.wantHistory("-1 succeeded scheduled on a", "0 succeeded scheduled on a")
		})
	})
}

// failsKept is FAILS_KEPT of record.lua.
const failsKept = 20
