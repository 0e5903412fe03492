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
// is claimed, against the same 1,000 claims as bare EVALSHA in one pipeline. So the planning,
// the race, 1,000 run ids and tokens, sixteen pipelines instead of one, and 1,000 runs that begin
// meanwhile are what is above 1. The runs end together, after the last claim.
//
// x-split is measured against bare EVALSHA in the scheduler's own pipelines of 64, two in flight.
func BenchmarkDue(b *testing.B) {
	redisServer := redistest.Server(b)
	h := newHost(b, redisServer)
	whole := &twin{b, server.Client(b, redisServer), wholeNS}
	split := &twin{b, server.Client(b, redisServer), splitNS}
	for b.Loop() {
		var ofHost, ofWhole, ofSplit, sent, begun []time.Duration
		for round := range dueWarm + dueRounds {
			tick, lastBegun := h.round()
			claims, finishes, first, last := h.tap.take()
			wholeClaims, splitClaims := whole.bodies(claims), split.bodies(claims)
			time.Sleep(time.Until(tick.Add(dueEvery / 2)))

			bareWhole := sample.Timed(func() { whole.won(whole.send(wholeClaims, len(wholeClaims), 1)) })
			bareSplit := sample.Timed(func() { split.won(split.send(splitClaims, 64, 2)) })
			if round == 0 { // what was found due at the start is in it too, and decided already
				bareWhole = sample.Timed(func() { whole.done(whole.send(wholeClaims, len(wholeClaims), 1)) })
				bareSplit = sample.Timed(func() { split.done(split.send(splitClaims, 64, 2)) })
			}
			tookWhole, tookSplit := bareWhole(), bareSplit()
			whole.done(whole.send(whole.bodies(finishes), len(finishes), 1))
			split.done(split.send(split.bodies(finishes), len(finishes), 1))
			if round < dueWarm {
				continue
			}
			if len(claims) != dueJobs {
				b.Fatalf("%d claims were sent for %d ticks: some were sent twice", len(claims), dueJobs)
			}
			ofHost, ofWhole, ofSplit = append(ofHost, last.Sub(tick)), append(ofWhole, tookWhole), append(ofSplit, tookSplit)
			sent, begun = append(sent, first.Sub(tick)), append(begun, lastBegun.Sub(tick))
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
	h := &host{tb: tb, all: make(chan time.Time, 1), end: make(chan struct{})}
	h.tap = &tap{finished: make(chan struct{}, 1), want: dueJobs}
	client := server.Client(tb, redisServer)
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
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	tb.Cleanup(func() {
		stop()
		running.Wait()
	})
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
