package tick

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/bench/server"
	"rota/internal/redistest"
	"rota/locking"
	"rota/scheduler/ledger"
)

// line is one job whose ticks are claimed in order, as fast as somebody asks.
type line struct {
	tb     testing.TB
	client *redis.Client
	led    *ledger.Ledger
	job    string
	tick   time.Time
	since  time.Time
	ending ledger.Ending
	raced  bool         // others look what it takes
	c      ledger.Claim // the next one
}

func newLine(tb testing.TB, job string) *line {
	tb.Helper()
	return newLineOn(tb, server.OneConnection(tb, redistest.Server(tb).Addr()), job)
}

func newLineOn(tb testing.TB, c *redis.Client, job string) *line {
	tb.Helper()
	led, err := ledger.New(c, ledger.Options{Namespace: "bench", Keep: keep})
	if err != nil {
		tb.Fatal(err)
	}
	// A tick must not lie in the future. These are a second apart and began long enough ago.
	start := time.Now().Add(-365 * 24 * time.Hour).Truncate(time.Second)
	l := &line{
		tb: tb, client: c, led: led, job: job, tick: start, since: start,
		ending: ledger.Ending{Outcome: "succeeded"},
	}
	l.next()
	return l
}

// next makes the claim for the next tick, unless it is made already.
func (l *line) next() {
	if l.c.Run != "" {
		return
	}
	prev := l.tick
	l.tick = l.tick.Add(time.Second)
	l.c = ledger.Claim{
		Job: l.job, Lock: l.job, Kind: ledger.Scheduled, Tick: l.tick, Prev: prev, Since: l.since,
		Run: fmt.Sprintf("%s-%018d", l.job, l.tick.Unix()), Token: locking.NewToken(), Host: "web-1",
		Definition: "9f3c86d2", ScheduleHash: "41b07a55", TTL: 30 * time.Second, Expire: 15 * 24 * time.Hour,
		Overlap: "skip", Misfire: "skip", OnCrash: "skip", MaxParallel: 10,
	}
	if l.raced {
		l.c.Table = "7d1e0c44"
	}
}

func (l *line) claim() *ledger.Grant {
	l.next()
	ctx, cancel := context.WithTimeout(context.Background(), server.OpTimeout)
	defer cancel()
	d := l.led.Claim(ctx, []ledger.Claim{l.c})[0]
	if d.Err != nil || d.Answer != ledger.Won {
		l.tb.Fatalf("claim of %s: %q, %v; want won", l.tick, d.Answer, d.Err)
	}
	g := &ledger.Grant{Claim: l.c, Fence: d.Fence, Found: d.Found, Won: d.Won}
	l.c = ledger.Claim{}
	return g
}

func (l *line) finish(g *ledger.Grant) {
	ctx, cancel := context.WithTimeout(context.Background(), server.OpTimeout)
	defer cancel()
	e := l.ending
	e.Started, e.Ended, e.Attempt = g.Won, g.Won, 1
	if held, err := l.led.Finish(ctx, g, e); err != nil || !held {
		l.tb.Fatalf("finish of %s: held %t, %v; want true", g.Claim.Tick, held, err)
	}
}

func (l *line) ping() {
	ctx, cancel := context.WithTimeout(context.Background(), server.OpTimeout)
	defer cancel()
	if err := l.client.Ping(ctx).Err(); err != nil {
		l.tb.Fatal(err)
	}
}

// empty returns a function that sends what a claim and its finish send, to a script that only
// returns: the same keys and arguments in the same two calls.
func (l *line) empty() func() {
	tapped := redis.NewClient(l.client.Options())
	defer func() { _ = tapped.Close() }()
	t := &tap{finished: make(chan struct{}, 1)}
	tapped.AddHook(t)
	led, err := ledger.New(tapped, ledger.Options{Namespace: "bench", Keep: keep})
	if err != nil {
		l.tb.Fatal(err)
	}
	own := l.led
	l.led = led
	l.finish(l.claim())
	l.led = own
	sent := t.take()
	sha, err := l.client.ScriptLoad(context.Background(), "return 1").Result()
	if err != nil {
		l.tb.Fatal(err)
	}
	claim, finish := slices.Clone(sent.claims[0]), slices.Clone(sent.finishes[0])
	claim[1], finish[1] = sha, sha
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), server.OpTimeout)
		defer cancel()
		for _, args := range [][]any{claim, finish} {
			if err := l.client.Do(ctx, args...).Err(); err != nil {
				l.tb.Fatal(err)
			}
		}
	}
}

// wait leaves what a claim leaves that finds the lock held: the request to be told.
func (l *line) wait() {
	if err := l.client.Set(context.Background(), l.led.LeaseKey(l.job)+":wait", "web-2", time.Minute).Err(); err != nil {
		l.tb.Fatal(err)
	}
}
