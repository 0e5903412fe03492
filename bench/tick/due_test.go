package tick

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/bench/server"
	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

const (
	dueJobs   = 1000
	dueEvery  = 3 * time.Second
	dueWarm   = 3 // rounds that load the scripts, open connections and make the records
	dueRounds = 12
)

// A scheduler with 1,000 jobs that are due at one instant, from that instant until the last one
// is claimed, against the same 1,000 claims as bare EVALSHA in one pipeline. So a late timer, the
// planning, the race, 1,000 run ids and tokens, sixteen pipelines instead of one, and 1,000 runs
// that begin meanwhile are what is above 1. The runs end together, after the last claim.
//
// x-split is measured against bare EVALSHA in the scheduler's own pipelines of 64, two in flight.
func BenchmarkDue(b *testing.B) {
	redisServer := redistest.Server(b)
	h := newHost(b, redisServer)
	whole := &twin{tb: b, client: server.Client(b, redisServer.Addr()), ns: wholeNS, pipeline: dueJobs, inFlight: 1}
	split := &twin{tb: b, client: server.Client(b, redisServer.Addr()), ns: splitNS, pipeline: 64, inFlight: 2}
	for b.Loop() {
		var ofHost, ofWhole, ofSplit, sent, begun []time.Duration
		for round := range dueWarm + dueRounds {
			tick, lastBegun := h.round()
			s := h.tap.take()
			time.Sleep(time.Until(tick.Add(dueEvery / 2)))
			warm := round < dueWarm // what was found due at the start, and decided already, is in it too
			if !warm && len(s.claims) != dueJobs {
				b.Fatalf("%d claims were sent for %d ticks: some were sent twice", len(s.claims), dueJobs)
			}
			twins, took := []*twin{whole, split}, [2]time.Duration{}
			for i := range twins {
				k := (round + i) % len(twins) // neither of them always follows the other
				took[k] = twins[k].claim(s.claims, !warm)
			}
			whole.finish(s.finishes)
			split.finish(s.finishes)
			if warm {
				continue
			}
			ofHost, ofWhole, ofSplit = append(ofHost, s.last.Sub(tick)), append(ofWhole, took[0]), append(ofSplit, took[1])
			sent, begun = append(sent, s.first.Sub(tick)), append(begun, lastBegun.Sub(tick))
		}
		sample.Compare(ofHost, ofWhole).Report(b, "x-evalsha")
		b.ReportMetric(sample.Compare(ofHost, ofSplit).Of, "x-split")
		b.ReportMetric(sample.Millis(sample.Median(ofWhole)), "ms-bare")
		b.ReportMetric(sample.Millis(sample.Median(sent)), "ms-first-sent")
		b.ReportMetric(sample.Millis(sample.Median(ofHost)), "ms-last-claimed")
		b.ReportMetric(sample.Millis(sample.Median(begun)), "ms-last-begun")
	}
}

// host is a scheduler whose jobs begin as they are claimed and end when all have begun.
type host struct {
	tb  testing.TB
	tap *tap

	mu    sync.Mutex
	begun int
	all   chan time.Time // the instant at which the last job began
	end   chan struct{}  // closed to end the runs of a round; replaced each round
	tick  time.Time
}

func newHost(tb testing.TB, redisServer *redistest.ServerProc) *host {
	tb.Helper()
	h := &host{tb: tb, all: make(chan time.Time, 1), end: make(chan struct{})}
	h.tap = &tap{finished: make(chan struct{}, 1), want: dueJobs}
	client := server.Client(tb, redisServer.Addr())
	client.AddHook(h.tap)
	led, err := ledger.New(client, ledger.Options{Namespace: fleetNS, Keep: keep})
	if err != nil {
		tb.Fatal(err)
	}
	rule, err := schedule.Parse("UTC", fmt.Sprintf("*/%d * * * * *", dueEvery/time.Second))
	if err != nil {
		tb.Fatal(err)
	}
	table := make([]scheduler.Job, dueJobs)
	for i := range table {
		table[i] = scheduler.Job{
			Name: fmt.Sprintf("job-%04d", i), Schedule: rule, Handler: jobs.Func(h.run),
			Definition: "9f3c86d2", ScheduleHash: "41b07a55",
		}
	}
	s, err := scheduler.New(scheduler.Options{
		Ledger: led, Jobs: table, Table: "7d1e0c44", Namespace: fleetNS, Host: "web-1", OpTimeout: server.OpTimeout,
	})
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(tb.Context()) })
	tb.Cleanup(running.Wait) // the context has ended by then
	return h
}

func (h *host) run(ctx context.Context, run jobs.Run) error {
	h.mu.Lock()
	h.begun++
	h.tick = run.Tick
	end := h.end
	if h.begun == dueJobs {
		h.all <- time.Now()
	}
	h.mu.Unlock()
	select {
	case <-end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// round waits for the next instant, until all its jobs have begun and ended. It returns the
// instant and when the last of them began.
func (h *host) round() (tick, lastBegun time.Time) {
	h.tb.Helper()
	timeout := time.After(2 * dueEvery)
	select {
	case lastBegun = <-h.all:
	case <-timeout:
		h.tb.Fatalf("not all of %d jobs began within %s", dueJobs, 2*dueEvery)
	}
	h.mu.Lock()
	tick = h.tick
	close(h.end)
	h.begun, h.end = 0, make(chan struct{})
	h.mu.Unlock()
	select {
	case <-h.tap.finished:
	case <-timeout:
		h.tb.Fatalf("not all of %d runs were recorded", dueJobs)
	}
	return tick, lastBegun
}
