package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// boot makes CLOCK_BOOTTIME the bubble's clock, from some instant on.
func boot(o *Options) {
	began := time.Now()
	o.Boottime = func() time.Duration { return 1000*time.Hour + time.Since(began) }
}

// A handler is told by when it must have begun: by the start deadline, unless a policy lets the tick start
// later.
func TestScheduler_StartDeadlineOfARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var opt Options
		got := make(chan time.Duration, 10) // from the tick on; 0: at any time
		j := job(t, "work", "* * * * *", jobs.Func(func(ctx context.Context, run jobs.Run) error {
			if run.StartBy == 0 {
				got <- 0
			} else {
				got <- time.Now().Add(run.StartBy - opt.Boottime()).Sub(run.Tick).Round(time.Second)
			}
			select {
			case <-time.After(90 * time.Second):
			case <-ctx.Done():
			}
			return nil
		}))
		j.StartDeadline, j.Overlap = 20*time.Second, OverlapQueue
		f.start("h0", func(o *Options) { boot(o); opt = *o }, j)
		if first, second := <-got, <-got; first != 20*time.Second || second != 0 {
			t.Errorf("a run in time must begin %s after its tick, one that waited %s; want 20s, at any time", first, second)
		}
	})
}

// A run's token is given out as long as its lease can be trusted, also in its grace; not once Redis has said
// that it is another's, nor after it.
func TestScheduler_TokenOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		runs := make(chan jobs.Run, 2)
		wait := func(ctx context.Context, run jobs.Run) error {
			runs <- run
			select {
			case <-ctx.Done():
				<-run.Kill
			case <-time.After(5 * time.Minute):
			}
			return context.Cause(ctx)
		}
		h := f.start("h0", func(o *Options) { boot(o); o.Socket = "/run/rota/s" },
			job(t, "kept", "0 * * * *", jobs.Func(wait)), job(t, "taken", "0 * * * *", jobs.Func(wait)))
		byJob := map[string]jobs.Run{}
		for range 2 {
			run := <-runs
			byJob[run.Job] = run
			if token, ok := h.TokenOf(run.ID); !ok || token != run.Token || run.Socket != "/run/rota/s" {
				t.Errorf("TokenOf(%s) = %d, %t and socket %q, want %d", run.Job, token, ok, run.Socket, run.Token)
			}
		}
		if token, ok := h.TokenOf("another"); ok {
			t.Errorf("TokenOf of no run = %d, want none", token)
		}
		f.redis.Del("{t}:lock:taken") // the next renewal hears that it is gone
		time.Sleep(1500 * time.Millisecond)
		if token, ok := h.TokenOf(byJob["taken"].ID); ok {
			t.Errorf("TokenOf of a run whose lease was refused = %d, want none", token)
		}
		if _, ok := h.TokenOf(byJob["kept"].ID); !ok {
			t.Error("TokenOf of a run that goes on: none")
		}
		time.Sleep(5 * time.Minute)
		if token, ok := h.TokenOf(byJob["kept"].ID); ok {
			t.Errorf("TokenOf of a run that has ended = %d, want none", token)
		}
	})
}

// A run's deadlines are set when it starts, move with every renewal, and stay when renewals fail; the
// handler's own notice comes at the first of them. (TTL 10 s, so trusted for 9.898 s, killed 500 ms
// before that; the loss grace is 1 s.)
func TestScheduler_DeadlinesFollowTheLease(t *testing.T) {
	const ttl, trusted, margin, grace = 10 * time.Second, 9898 * time.Millisecond, 500 * time.Millisecond, time.Second
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		runs := make(chan jobs.Run, 1)
		told := make(chan time.Time, 1)
		j := job(t, "work", "0 * * * *", jobs.Func(func(ctx context.Context, run jobs.Run) error {
			runs <- run
			<-ctx.Done()
			told <- time.Now()
			return context.Cause(ctx)
		}))
		var opt Options
		f.start("h0", func(o *Options) { boot(o); opt = *o }, j)
		// of are the deadlines as times of the bubble.
		of := func(run jobs.Run) (term, kill time.Time) {
			t1, t2, _ := run.Deadlines.At()
			now, wall := opt.Boottime(), time.Now()
			return wall.Add(t1 - now), wall.Add(t2 - now)
		}
		run := <-runs
		term, kill := of(run)
		if left := time.Until(kill); left > trusted-margin || left < trusted-margin-100*time.Millisecond {
			t.Errorf("at the start the run has %s, want %s less what the claim took", left, trusted-margin)
		}
		if kill.Sub(term) != grace {
			t.Errorf("SIGTERM comes %s before SIGKILL, want the loss grace of %s", kill.Sub(term), grace)
		}
		time.Sleep(time.Minute)
		if _, kill = of(run); time.Until(kill) < trusted-margin-1100*time.Millisecond {
			t.Errorf("after a minute of renewals the run has %s, want what is left a second after one", time.Until(kill))
		}
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(5 * time.Second)
		term, kill = of(run)
		if left := time.Until(kill); left > trusted-margin-5*time.Second {
			t.Errorf("5 s after renewals began to fail the run has %s, want none more than before", left)
		}
		if at := <-told; at.Before(term) || at.Sub(term) > 10*time.Millisecond {
			t.Errorf("the handler was told %s after its SIGTERM would have come, want at once", at.Sub(term))
		}
		f.redis.SetError("")
		time.Sleep(5 * time.Second)
	})
}

// A refused renewal leaves no more than the loss grace, from now, and no less: neither by the deadlines nor
// by the Kill channel.
func TestScheduler_DeadlinesAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		runs := make(chan jobs.Run, 1)
		killed := make(chan time.Duration, 1)
		j := job(t, "work", "0 * * * *", jobs.Func(func(ctx context.Context, run jobs.Run) error {
			runs <- run
			<-ctx.Done()
			told := time.Now()
			time.Sleep(200 * time.Millisecond)
			runs <- run
			<-run.Kill
			killed <- time.Since(told)
			return nil
		}))
		var opt Options
		f.start("h0", func(o *Options) { boot(o); opt = *o }, j)
		<-runs
		time.Sleep(5 * time.Second)
		f.redis.Del("{t}:lock:work")
		term, kill, _ := (<-runs).Deadlines.At()
		if now := opt.Boottime(); now-term != 200*time.Millisecond || kill-term != opt.LossGrace {
			t.Errorf("200 ms after the refusal: SIGTERM %s ago, SIGKILL %s after it; want 200ms and %s", now-term, kill-term, opt.LossGrace)
		}
		if after := <-killed; after != opt.LossGrace {
			t.Errorf("Kill was closed %s after the refusal was told, want %s", after, opt.LossGrace)
		}
	})
}
