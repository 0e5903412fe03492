package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// realFleet is hosts with clocks of their own in one process, on a real redis-server.
type realFleet struct {
	t      *testing.T
	server *redistest.ServerProc

	mu   sync.Mutex
	runs []jobs.Run
}

// host starts a scheduler whose wall clock is off by offset.
func (f *realFleet) host(ctx context.Context, wg *sync.WaitGroup, name string, offset time.Duration, table []Job) {
	f.t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: f.server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 4, Protocol: 2,
	})
	led, err := ledger.New(client, ledger.Options{Namespace: "skew"})
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := New(Options{
		Ledger: led, Jobs: table, Table: "table", Namespace: "skew", Host: name, ClockOffset: offset,
		TTL: 30 * time.Second, RenewEvery: 5 * time.Second, OpTimeout: 5 * time.Second, Drain: 10 * time.Second,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	wg.Go(func() {
		_ = s.Run(ctx)
		_ = client.Close()
	})
}

// check compares what ran with the ledger: one run a tick, none early, none unaccounted. It
// returns how many ticks ran.
func (f *realFleet) check(table []Job) int {
	f.t.Helper()
	ran := map[string]string{}
	for _, r := range f.runs {
		key := r.Job + " " + r.Tick.Format(time.RFC3339)
		if other, ok := ran[key]; ok {
			f.t.Errorf("%s ran on %s and on %s", key, other, r.Host)
		}
		ran[key] = r.Host
	}
	led, err := ledger.New(f.server.Client(), ledger.Options{Namespace: "skew"})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	skipped := 0
	for _, j := range table {
		names = append(names, j.Name)
	}
	entries, err := led.History(f.t.Context(), ledger.Query{Jobs: names})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case e.Outcome == ledger.OutcomeSkipped, e.Outcome == ledger.OutcomeMissed:
			// A busy machine: the run of the tick before was not over, or nobody came in time.
			skipped += max(1, e.Count)
		case e.Outcome != string(jobs.Succeeded):
			f.t.Errorf("%s: tick %s is %s (%s), want succeeded", e.Job, e.Tick, e.Outcome, e.Reason)
		case e.Lag() < 0:
			f.t.Errorf("%s: tick %s was won %s early", e.Job, e.Tick, -e.Lag())
		}
	}
	f.t.Logf("%d ticks ran, %d did not: each has its entry", len(ran), skipped)
	return len(ran)
}

func (f *realFleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.runs)
}

func (f *realFleet) table(n int) []Job {
	f.t.Helper()
	s, err := schedule.Parse("UTC", "* * * * * *")
	if err != nil {
		f.t.Fatal(err)
	}
	var table []Job
	for i := range n {
		table = append(table, Job{
			Name: fmt.Sprintf("job-%d", i), Schedule: s, Definition: "d", ScheduleHash: "s",
			Handler: jobs.Func(func(_ context.Context, run jobs.Run) error {
				f.mu.Lock()
				f.runs = append(f.runs, run)
				f.mu.Unlock()
				time.Sleep(time.Millisecond)
				return nil
			}),
		})
	}
	return table
}

// Three hosts at −2 s, 0 and +2 s, and a job of a millisecond: a lock that is held only while
// a job runs would let each of them run each tick (L01).
func TestSkew_ThreeHosts(t *testing.T) {
	t.Parallel() // most of it is waiting
	f := &realFleet{t: t, server: redistest.Server(t)}
	table := f.table(1)
	ctx, stop := context.WithTimeout(t.Context(), 12*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for i, offset := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} {
		f.host(ctx, &wg, fmt.Sprintf("h%d", i), offset, table)
	}
	wg.Wait()
	if n := f.check(table); n < 9 {
		t.Errorf("%d ticks ran in 12 s, want 9 or more", n)
	}
}

// Fifty hosts with clocks up to 30 s off, 10,000 ticks: 10,000 runs, none early.
func TestSkew_FiftyHosts(t *testing.T) {
	f := &realFleet{t: t, server: redistest.Server(t)}
	hosts, jobsDue, want := 50, 400, 10_000
	if underRace {
		hosts, jobsDue, want = 10, 40, 400 // the detector makes it ten times slower; the plain run counts
	}
	table := f.table(jobsDue)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute) // half a minute usually
	defer stop()
	random := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	for i := range hosts {
		offset := time.Duration(random.Int64N(int64(time.Minute))) - 30*time.Second
		f.host(ctx, &wg, fmt.Sprintf("h%02d", i), offset, table)
	}
	for f.count() < want && sleep(ctx, 100*time.Millisecond) {
	}
	stop()
	wg.Wait()
	n := f.check(table)
	byHost := map[string]int{}
	for _, r := range f.runs {
		byHost[r.Host]++
	}
	if len(byHost) < hosts/2 {
		t.Errorf("the runs are spread over %d of %d hosts", len(byHost), hosts)
	}
	if n < want {
		t.Errorf("%d ticks ran, want %d or more", n, want)
	}
}
