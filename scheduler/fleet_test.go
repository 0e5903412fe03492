package scheduler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// fleet is some hosts over one Redis, all inside a synctest bubble.
type fleet struct {
	t     *testing.T
	redis *miniredis.Miniredis
	dial  func() (net.Conn, error)
	led   *ledger.Ledger
	keep  int    // runs in the history; 0: the ledger's default
	user  string // of Redis, without a password; "": the default user

	mu   sync.Mutex
	runs []jobs.Run
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	m, c := redistest.InBubble(t)
	// Through a proxy for its buffer: a net.Pipe has none, and a long pipeline would wait for its own replies.
	f := &fleet{t: t, redis: m, dial: redistest.PipeProxy(t, m.Dial).Dial}
	led, err := ledger.New(c, ledger.Options{Namespace: "t"})
	if err != nil {
		t.Fatal(err)
	}
	f.led = led
	return f
}

func (f *fleet) client() redis.UniversalClient {
	dial := f.dial // a host keeps to its way, whatever the next ones are given
	return redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", Username: f.user, ContextTimeoutEnabled: true, MaxRetries: -1,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return dial() },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// handler records that it was called, and goes on for d or until it must end.
func (f *fleet) handler(d time.Duration) jobs.Handler {
	return jobs.Func(func(ctx context.Context, run jobs.Run) error {
		f.mu.Lock()
		f.runs = append(f.runs, run)
		f.mu.Unlock()
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// ran returns the runs whose handlers were called so far.
func (f *fleet) ran() []jobs.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.runs)
}

// host is one running scheduler.
type host struct {
	*Scheduler
	stop   context.CancelFunc
	ended  chan struct{}
	client redis.UniversalClient
}

// start runs a host until the test ends or stop is called.
func (f *fleet) start(name string, change func(*Options), table ...Job) *host {
	f.t.Helper()
	c := f.client()
	led, err := ledger.New(c, ledger.Options{Namespace: "t", Keep: f.keep})
	if err != nil {
		f.t.Fatal(err)
	}
	opt := Options{
		Ledger: led, Jobs: table, Table: "table", Namespace: "t", Host: name,
		TTL: 10 * time.Second, RenewEvery: time.Second, LossGrace: time.Second, OpTimeout: time.Second,
		Drain: time.Minute, Boottime: func() time.Duration { return 0 }, Logger: testLog(name),
	}
	if change != nil {
		change(&opt)
	}
	s, err := New(opt)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &host{Scheduler: s, stop: cancel, ended: make(chan struct{}), client: c}
	go func() {
		defer close(h.ended)
		_ = s.Run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		s.Kill()
		<-h.ended
		_ = c.Close()
	})
	return h
}

func testLog(host string) *slog.Logger {
	w := io.Discard
	if os.Getenv("ROTA_TEST_LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})).With("host", host)
}

func job(t *testing.T, name, spec string, h jobs.Handler) Job {
	t.Helper()
	s, err := schedule.Parse("UTC", spec)
	if err != nil {
		t.Fatal(err)
	}
	return Job{Name: name, Schedule: s, Handler: h, Definition: "d", ScheduleHash: "s"}
}

// history returns the ledger's entries of a job, oldest first.
func (f *fleet) history(job string) []ledger.Entry {
	f.t.Helper()
	e, err := f.led.History(context.Background(), ledger.Query{Jobs: []string{job}})
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Reverse(e)
	return e
}

// says is a job's history in short, oldest first: of each entry the tick or the range, the
// outcome, and of a run its kind, unless that is the usual one.
func (f *fleet) says(job string) []string {
	f.t.Helper()
	var out []string
	for _, e := range f.history(job) {
		line := e.Tick.Format("15:04:05") + " " + e.Outcome
		if e.Count > 0 {
			line = fmt.Sprintf("%s…%s (%d) %s", e.Tick.Format("15:04:05"), e.Until.Format("15:04:05"), e.Count, e.Outcome)
		}
		if e.Run != "" && e.Kind != ledger.Scheduled {
			line += " " + string(e.Kind)
		}
		out = append(out, line)
	}
	return out
}

// wantSays compares says, line by line.
func (f *fleet) wantSays(job string, want ...string) {
	f.t.Helper()
	if got := f.says(job); !slices.Equal(got, want) {
		f.t.Errorf("%s: the history says\n  %s\nwant\n  %s", job, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// accounts checks the promise for the ticks of one job in (from, until]: each ran once, or an
// entry says why not. It returns how many runs and how many ticks without one there were.
func (f *fleet) accounts(j Job, from, until time.Time) (runs, others int) {
	f.t.Helper()
	seen := map[time.Time]string{}
	var last int64
	for _, e := range f.history(j.Name) {
		if e.Kind == ledger.Manual {
			continue
		}
		ticks := []time.Time{e.Tick}
		for n := 1; n < e.Count; n++ {
			next, _ := j.Schedule.Next(ticks[n-1])
			ticks = append(ticks, next)
		}
		if e.Count > 0 && !ticks[e.Count-1].Equal(e.Until) {
			f.t.Errorf("%s: range %s … %s counts %d ticks, the schedule ends it at %s", j.Name, e.Tick, e.Until, e.Count, ticks[e.Count-1])
		}
		for _, tick := range ticks {
			if was, ok := seen[tick]; ok {
				f.t.Errorf("%s: tick %s is %s and %s (%s)", j.Name, tick, was, e.Outcome, e.Reason)
			}
			seen[tick] = e.Outcome
		}
		if e.Run == "" {
			others += len(ticks)
			continue
		}
		runs++
		if e.Token <= last {
			f.t.Errorf("%s: token %d of tick %s is not above %d", j.Name, e.Token, e.Tick, last)
		}
		last = e.Token
		if e.Lag() < 0 {
			f.t.Errorf("%s: tick %s was won %s early", j.Name, e.Tick, -e.Lag())
		}
	}
	for tick, ok := j.Schedule.Next(from); ok && !tick.After(until); tick, ok = j.Schedule.Next(tick) {
		if seen[tick] == "" {
			f.t.Errorf("%s: tick %s has no entry", j.Name, tick)
		}
	}
	return runs, others
}

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("h%d", i))
	}
	return out
}
