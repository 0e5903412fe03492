package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"rota/internal/redistest"
)

// clocked is a rig on miniredis whose clock stands still until the test moves it. A real
// server's cannot be set, so what happens to the millisecond is shown here alone.
func clocked(t *testing.T) (r *rig, at func(time.Time)) {
	t.Helper()
	m, c := redistest.InBubble(t)
	m.SetTime(time.Date(2026, 11, 29, 2, 0, 1, 0, time.UTC))
	r = newRig(t, c)
	r.mini = m
	return r, func(now time.Time) { m.SetTime(now) }
}

const ms = time.Millisecond

// Bounds belong to what is still allowed.
func TestClaim_Bounds(t *testing.T) {
	deadline := func(c *Claim) { c.Deadline = c.Tick.Add(time.Second) }
	for name, c := range map[string]struct {
		now  func(r *rig) time.Time
		want string
		with func(*Claim)
	}{
		"a millisecond before the tick":     {func(r *rig) time.Time { return r.tick(1).Add(-ms) }, "early", deadline},
		"at the tick":                       {func(r *rig) time.Time { return r.tick(1) }, "won", deadline},
		"at the deadline":                   {func(r *rig) time.Time { return r.tick(1).Add(time.Second) }, "won", deadline},
		"a millisecond after the deadline":  {func(r *rig) time.Time { return r.tick(1).Add(time.Second + ms) }, "late missed", deadline},
		"at the splayed start":              {func(r *rig) time.Time { return r.tick(1).Add(5 * ms) }, "won", func(c *Claim) { c.Due = c.Tick.Add(5 * ms) }},
		"before the splayed start":          {func(r *rig) time.Time { return r.tick(1).Add(4 * ms) }, "early", func(c *Claim) { c.Due = c.Tick.Add(5 * ms) }},
		"the tick of the load":              {func(r *rig) time.Time { return r.tick(1) }, "already", func(c *Claim) { c.Since = c.Tick }},
		"the tick after the load":           {func(r *rig) time.Time { return r.tick(1) }, "won", func(c *Claim) { c.Since = c.Tick.Add(-ms) }},
		"known a second ahead":              {func(r *rig) time.Time { return r.tick(1) }, "already", func(c *Claim) { c.Known = c.Tick.Add(time.Second) }},
		"known a second and more ahead":     {func(r *rig) time.Time { return r.tick(1) }, "won", func(c *Claim) { c.Known = c.Tick.Add(time.Second + ms) }},
		"known by less than a millisecond":  {func(r *rig) time.Time { return r.tick(1) }, "won", func(c *Claim) { c.Known = c.Tick.Add(-time.Nanosecond) }},
		"a tick of the same millisecond":    {func(r *rig) time.Time { return r.tick(1).Add(999 * time.Microsecond) }, "won", deadline},
		"a start that falls before the due": {func(r *rig) time.Time { return r.tick(1).Add(-time.Microsecond) }, "early", deadline},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := clocked(t)
			at(c.now(r))
			r.want(c.want, r.claim(1, c.with))
		})
	}
}

func TestClaim_FutureBounds(t *testing.T) {
	for name, c := range map[string]struct {
		back time.Duration // Redis' clock steps back by this, after a tick ran
		want string
	}{
		"a second":      {time.Second, "already"},
		"more than one": {time.Second + ms, "future"},
		"an hour":       {time.Hour, "future"},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := clocked(t)
			at(r.tick(1))
			first := r.ran(1)
			at(r.tick(1).Add(-c.back))
			r.want(c.want, r.claim(0))
			at(r.tick(2)) // the clock is right again
			if g := r.ran(2); g.Fence <= first.Fence {
				t.Errorf("Fence = %d after the step, want above %d", g.Fence, first.Fence)
			}
			r.wantHistory("1 succeeded scheduled on a", "2 succeeded scheduled on a")
		})
	}
}

// A pause is half open: its first instant is in it, its end is not.
func TestClaim_PauseBounds(t *testing.T) {
	for name, c := range map[string]struct {
		now  time.Duration // after the pause's begin at tick 1; it lasts a minute
		tick int
		want string
	}{
		"before it":       {-ms, 0, "won"},
		"at its begin":    {0, 1, "paused"},
		"at its last":     {time.Minute - ms, 1, "paused"},
		"at its end":      {time.Minute, 2, "won"},
		"after its end":   {time.Minute + ms, 1, "already"},
		"the tick behind": {2 * time.Minute, 3, "won"},
	} {
		t.Run(name, func(t *testing.T) {
			r, at := clocked(t)
			r.ran(-1)
			r.do("HSET", "{t}:job:j", "pause_from", r.tick(1).UnixMilli(), "pause_until", r.tick(2).UnixMilli())
			at(r.tick(1).Add(c.now))
			r.want(c.want, r.claim(c.tick))
		})
	}
}

// Case L20: a job of 90 s every minute. Minutes 0, 2, 4 run, and 1, 3 name their holder.
func TestClaim_LongerThanItsGap(t *testing.T) {
	r, at := clocked(t)
	var g *Grant
	for n := 1; n <= 5; n++ {
		at(r.tick(n))
		if n%2 == 0 {
			r.want("held skipped", r.claim(n, by("b")))
			at(r.tick(n).Add(30 * time.Second))
			r.end(g, "succeeded")
			continue
		}
		g = r.win(r.claim(n))
		for s := range 3 {
			at(r.tick(n).Add(time.Duration(s) * 15 * time.Second))
			if a := r.led.Renew(r.ctx(), []*Grant{g})[0]; !a.Renewed {
				t.Fatalf("Renew() = %+v, want renewed", a)
			}
		}
	}
	r.wantHistory("1 succeeded scheduled on a", "2 skipped: the run before is still going on a", "3 succeeded scheduled on a",
		"4 skipped: the run before is still going on a", "5 running scheduled on a")
}

// A lease that nobody renews ends by Redis' clock, to the millisecond.
func TestClaim_LeaseEnds(t *testing.T) {
	r, at := clocked(t)
	at(r.tick(1))
	first := r.win(r.claim(1, reruns))
	at(r.tick(1).Add(time.Minute - ms))
	r.want("already", r.claim(1, reruns, by("b")))
	if a := r.led.Renew(r.ctx(), []*Grant{first})[0]; !a.Renewed {
		t.Fatalf("Renew() = %+v a millisecond before the end, want renewed", a)
	}
	at(r.tick(1).Add(2*time.Minute - ms))
	if a := r.led.Renew(r.ctx(), []*Grant{first})[0]; a.Renewed {
		t.Fatalf("Renew() = %+v after the end, want not renewed", a)
	}
	if g := r.win(r.claim(1, reruns, by("b"))); g.Found != "rerun" {
		t.Errorf("Found = %q, want rerun", g.Found)
	}
}

// Between the question for a count and its answer the record may change.
func TestClaim_GapChangesWhileItIsCounted(t *testing.T) {
	onEach(t, func(t *rig) {
		t.fresh("another host decides: its answer stands", func(t *rig) {
			t.ran(-5)
			c := t.claim(0)
			asked := 0
			c.Count = func(after, until time.Time) Ticks {
				if asked++; asked == 1 {
					t.ran(-2, by("b"))
				}
				return t.count(after, until)
			}
			t.want("won", c)
			t.wantHistory("-5 succeeded scheduled on a", "-4…-3 (2) missed", "-2 succeeded scheduled on b", "-1 missed", "0 running scheduled on a")
		})
		t.fresh("who writes the entries is told of the ticks in them, and nobody else", func(t *rig) {
			t.ran(-5)
			c := t.claim(0)
			if d := t.want("won", c); d.Unrun != (Ticks{N: 4, First: t.tick(-4), Last: t.tick(-1)}) {
				t.Errorf("Unrun = %+v, want the ticks -4 to -1", d.Unrun)
			}
			for _, again := range []Claim{c, t.claim(0, by("b"))} {
				if d := t.ask(again); d.Unrun != (Ticks{}) {
					t.Errorf("Unrun = %+v with %q, want none: they were recorded already", d.Unrun, d.Answer)
				}
			}
		})
		t.fresh("it takes longer than there is time for a call", func(t *rig) {
			t.ran(-5)
			c := t.claim(0)
			c.Count = func(after, until time.Time) Ticks {
				time.Sleep(300 * time.Millisecond)
				return t.count(after, until)
			}
			ctx, cancel := context.WithTimeout(t.ctx(), 200*time.Millisecond)
			defer cancel()
			if d := t.led.Claim(ctx, []Claim{c})[0]; d.Answer != Won {
				t.Errorf("Claim() = %+v, want won: each round trip has its time", d)
			}
		})
		t.fresh("its caller gives up meanwhile", func(t *rig) {
			t.ran(-5)
			ctx, cancel := context.WithTimeout(t.ctx(), time.Minute)
			defer cancel()
			c := t.claim(0)
			c.Count = func(after, until time.Time) Ticks { cancel(); return t.count(after, until) }
			if d := t.led.Claim(ctx, []Claim{c})[0]; !errors.Is(d.Err, context.Canceled) {
				t.Errorf("Claim() = %+v, want context.Canceled", d)
			}
		})
		t.fresh("not all are counted", func(t *rig) {
			t.ran(-5)
			c := t.claim(0)
			c.Count = func(after, until time.Time) Ticks {
				return Ticks{N: 2, More: true, First: t.tick(-4), Last: t.tick(-1)}
			}
			t.want("won", c)
			t.wantHistory("-5 succeeded scheduled on a", "-4…-1 (2) missed: no host claimed it in time (there are more: so many were counted)",
				"0 running scheduled on a")
		})
		t.fresh("another host is faster with the same tick", func(t *rig) {
			t.ran(-5)
			c := t.claim(0)
			c.Count = func(after, until time.Time) Ticks {
				c.Count = nil
				t.ran(0, by("b"))
				return t.count(after, until)
			}
			t.want("already", c)
			t.wantHistory("-5 succeeded scheduled on a", "-4…-1 (4) missed", "0 succeeded scheduled on b")
		})
		t.fresh("it never stops changing: the claim is unknown", func(t *rig) {
			t.ran(-9)
			n := -8
			c := t.claim(0)
			c.Count = func(after, until time.Time) Ticks {
				t.ran(n, by("b"))
				n++
				return t.count(after, until)
			}
			if d := t.led.Claim(t.ctx(), []Claim{c})[0]; d.Err == nil || d.Answer != "" {
				t.Errorf("Claim() = %+v, want an error", d)
			}
			if n != -8+4 {
				t.Errorf("it was counted %d times, want 4", n+8)
			}
		})
	})
}
