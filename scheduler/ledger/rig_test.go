package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

// rig is a Ledger on one Redis, and ticks a minute apart around that Redis' clock.
type rig struct {
	*testing.T
	led    *Ledger
	client *redis.Client
	server *redistest.ServerProc // nil on miniredis
	mini   *miniredis.Miniredis  // nil on a real server
	zero   time.Time             // the tick that became due a second before the rig was made
	runs   int
}

// onEach runs a test on a real server and on miniredis. They differ where it matters: the one
// hides faults of large numbers and of memory, the other is what the scheduler's tests use.
func onEach(t *testing.T, f func(t *rig)) {
	t.Helper()
	t.Run("redis-server", func(t *testing.T) { f(onServer(t)) })
	t.Run("miniredis", func(t *testing.T) {
		m, c := redistest.InBubble(t)
		r := newRig(t, c)
		r.mini = m
		f(r)
	})
}

func onServer(t *testing.T) *rig {
	t.Helper()
	s := redistest.Server(t)
	r := newRig(t, s.Client())
	r.server = s
	return r
}

func newRig(t *testing.T, c *redis.Client) *rig {
	t.Helper()
	led, err := New(c, Options{Namespace: "t"})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, led: led, client: c}
	r.zero = r.now().Add(-time.Second).Truncate(time.Second)
	return r
}

// fresh empties Redis and starts over as a subtest.
func (r *rig) fresh(name string, f func(t *rig)) {
	r.Helper()
	r.Run(name, func(t *testing.T) {
		sub := *r
		sub.T = t
		sub.do("FLUSHALL")
		sub.zero = sub.now().Add(-time.Second).Truncate(time.Second)
		f(&sub)
	})
}

func (r *rig) ctx() context.Context { return r.Context() }

func (r *rig) now() time.Time {
	r.Helper()
	now, err := r.client.Time(r.ctx()).Result()
	if err != nil {
		r.Fatal(err)
	}
	return now
}

// tick is the nth tick: 0 became due a second ago, 1 will in a minute.
func (r *rig) tick(n int) time.Time { return r.zero.Add(time.Duration(n) * time.Minute) }

// nth is the inverse of tick.
func (r *rig) nth(t time.Time) int { return int(t.Sub(r.zero) / time.Minute) }

func (r *rig) count(after, until time.Time) (ticks Ticks) {
	for i := -200; i < 200; i++ {
		if t := r.tick(i); t.After(after) && !t.After(until) {
			if ticks.N++; ticks.N == 1 {
				ticks.First = t
			}
			ticks.Last = t
		}
	}
	return ticks
}

// claim is a claim of job "j" for its nth tick by host "a", under the default policies.
func (r *rig) claim(n int, change ...func(*Claim)) Claim {
	r.runs++
	c := Claim{
		Job: "j", Lock: "j", Kind: Scheduled, Tick: r.tick(n), Prev: r.tick(n - 1), Since: r.tick(-150).Add(time.Second),
		Run: fmt.Sprintf("run%d", r.runs), Token: locking.NewToken(), Host: "a", Definition: "d1", ScheduleHash: "s1",
		TTL: time.Minute, Expire: 24 * time.Hour, Overlap: "skip", Misfire: "skip", OnCrash: "skip", MaxParallel: 2,
		Index: -1, Count: r.count,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func by(host string) func(*Claim)     { return func(c *Claim) { c.Host = host } }
func overlap(p string) func(*Claim)   { return func(c *Claim) { c.Overlap = p } }
func misfire(p string) func(*Claim)   { return func(c *Claim) { c.Misfire = p } }
func kind(k Kind) func(*Claim)        { return func(c *Claim) { c.Kind = k } }
func onLock(name string) func(*Claim) { return func(c *Claim) { c.Lock = name } }
func reruns(c *Claim)                 { c.OnCrash = "rerun" }

// parallel is a claim under "allow": the tick is part of the lease's name.
func parallel(c *Claim) {
	c.Overlap, c.Lease = "allow", fmt.Sprintf("%s:%d", c.Lock, c.Tick.Unix())
}

// ask sends one claim and wants an answer.
func (r *rig) ask(c Claim) Decision {
	r.Helper()
	d := r.led.Claim(r.ctx(), []Claim{c})[0]
	if d.Err != nil {
		r.Fatalf("Claim(%s) = %v, want an answer", r.what(c), d.Err)
	}
	return d
}

func (r *rig) what(c Claim) string {
	return fmt.Sprintf("%s tick %d by %s", c.Kind, r.nth(c.Tick), c.Host)
}

// want sends one claim and wants this answer, "held waiting" with what was decided.
func (r *rig) want(answer string, c Claim) Decision {
	r.Helper()
	d := r.ask(c)
	if got := strings.TrimSpace(string(d.Answer) + " " + string(d.Decided)); got != answer {
		r.Fatalf("Claim(%s) = %q, want %q; the ledger:\n%s", r.what(c), got, answer, r.dump())
	}
	return d
}

// win sends one claim that must be won.
func (r *rig) win(c Claim) *Grant {
	r.Helper()
	d := r.want("won", c)
	return &Grant{Claim: c, Fence: d.Fence, Found: d.Found, Won: d.Won}
}

// end finishes a run and tells whether its lease was still held.
func (r *rig) end(g *Grant, outcome string) bool {
	r.Helper()
	now := r.now()
	held, err := r.led.Finish(r.ctx(), g, Ending{Outcome: outcome, Attempt: 1, Started: now, Ended: now, ExitCode: new(0)})
	if err != nil {
		r.Fatalf("Finish(%s) = %v, want no error", r.what(g.Claim), err)
	}
	return held
}

// ran wins a tick and finishes it.
func (r *rig) ran(n int, change ...func(*Claim)) *Grant {
	r.Helper()
	g := r.win(r.claim(n, change...))
	r.end(g, "succeeded")
	return g
}

func (r *rig) abandon(c Claim) {
	r.Helper()
	if err := r.led.Abandon(r.ctx(), &c, "draining"); err != nil {
		r.Fatalf("Abandon(%s) = %v, want no error", r.what(c), err)
	}
}

// expire ends the lease of a claim, as time would.
func (r *rig) expire(c Claim) { r.Helper(); r.do("DEL", r.led.keys.lease(cmp.Or(c.Lease, c.Lock))) }

// wantHistory compares the job's history, oldest tick first, one line an entry: the tick, or
// its range and count, the outcome, the kind of a run, and "why" where the want has one.
func (r *rig) wantHistory(want ...string) {
	r.Helper()
	entries, err := r.led.History(r.ctx(), Query{Jobs: []string{"j"}})
	if err != nil {
		r.Fatalf("History() = %v, want no error", err)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(a.Tick.Compare(b.Tick), a.At().Compare(b.At()), cmp.Compare(a.Token, b.Token))
	})
	got := make([]string, len(entries))
	for i, e := range entries {
		tick := fmt.Sprint(r.nth(e.Tick))
		if e.Kind == Manual {
			tick = "manual"
		}
		if e.Count > 0 {
			tick = fmt.Sprintf("%d…%d (%d)", r.nth(e.Tick), r.nth(e.Until), e.Count)
		}
		got[i] = tick + " " + e.Outcome
		if e.Run != "" {
			got[i] += " " + string(e.Kind) + " on " + e.Host
		}
		if i < len(want) && strings.Contains(want[i], ": ") {
			got[i] += ": " + e.Reason
		}
	}
	if !slices.Equal(got, want) {
		r.Fatalf("History() =\n  %s\nwant\n  %s\nthe ledger:\n%s", strings.Join(got, "\n  "), strings.Join(want, "\n  "), r.dump())
	}
}

func (r *rig) state() JobState {
	r.Helper()
	s, err := r.led.State(r.ctx(), []string{"j"})
	if err != nil {
		r.Fatalf("State() = %v, want no error", err)
	}
	return s[0]
}

// do sends one plain command.
func (r *rig) do(args ...any) any {
	r.Helper()
	v, err := r.client.Do(r.ctx(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.Fatalf("%v: %v", args, err)
	}
	return v
}

func (r *rig) record() map[string]string {
	r.Helper()
	rec, err := r.client.HGetAll(r.ctx(), r.led.keys.record("j")).Result()
	if err != nil {
		r.Fatal(err)
	}
	return rec
}

// keys lists the names of all keys there are.
func (r *rig) keys() []string {
	r.Helper()
	keys, err := r.client.Keys(r.ctx(), "*").Result()
	if err != nil {
		r.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// dump writes out all of Redis but expiries: two dumps are equal if nothing has changed.
func (r *rig) dump() string {
	r.Helper()
	var b strings.Builder
	for _, k := range r.keys() {
		var v any
		switch r.client.Type(r.ctx(), k).Val() {
		case "string":
			v = r.client.Get(r.ctx(), k).Val()
		case "hash":
			h := r.client.HGetAll(r.ctx(), k).Val()
			for _, f := range slices.Sorted(maps.Keys(h)) {
				fmt.Fprintf(&b, "    %s %s=%q\n", k, f, h[f])
			}
			continue
		case "stream":
			for _, m := range r.client.XRange(r.ctx(), k, "-", "+").Val() {
				fmt.Fprintf(&b, "    %s %s %v\n", k, m.ID, m.Values)
			}
			continue
		case "set":
			v = r.client.SMembers(r.ctx(), k).Val()
		}
		fmt.Fprintf(&b, "    %s %q\n", k, v)
	}
	return b.String()
}
