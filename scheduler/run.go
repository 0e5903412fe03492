package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"rota/jobs"
	"rota/locking"
	"rota/scheduler/ledger"
)

// won turns a won claim into a run, or gives it back if there is no time left to use it.
func (s *Scheduler) won(t *try, a answer) {
	job, c := t.due.Job, &t.claim
	s.mu.Lock()
	why := ""
	switch {
	case s.draining:
		why = "draining"
	case !s.room.enter(t):
		why = hostsFull // it was claimed only to record that
	case a.Short != nil:
		why = strings.TrimPrefix(a.Short.Error(), "locking: ")
	default:
		s.handling.Add(1)
	}
	s.mu.Unlock()
	log := s.log.With("job", c.Job, "tick", c.Tick, "run", c.Run, "token", a.Fence)
	if why != "" {
		level := slog.LevelInfo
		switch {
		case a.Short == nil:
		case s.newRefusal(s.replicasOf(c), a.Short):
			level = slog.LevelWarn // somebody must act, and is told once, not once a tick
		default:
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "win given back", "reason", why)
		s.room.leave(&t.placed)
		s.giveBack(t, why)
		return
	}
	s.newRefusal(s.replicasOf(c), nil)
	r := &run{
		job: job, log: log,
		grant: ledger.Grant{Claim: *c, Fence: a.Fence, Found: a.Found, Won: a.Won},
		kill:  make(chan struct{}), placed: t.placed,
	}
	t.placed = false // the run's from now on
	r.ctx, r.cancel = context.WithCancelCause(s.handlers)
	s.hold(r, a.sent)
	if !r.lease.Valid() {
		r.lease.Stop()
		s.release(r)
		s.handling.Done()
		s.room.leave(&r.placed)
		r.cancel(nil)
		log.Warn("win given back", "reason", "the answer came after its trust deadline")
		s.giveBack(t, "the answer came too late")
		return
	}
	s.work.Go(func() { s.execute(r) })
}

// replicasOf is the name under which it is remembered that wins of a job are given back for want of
// replicas. No job is called so.
func (s *Scheduler) replicasOf(c *ledger.Claim) string { return "the replicas of " + c.Job }

// run is one run on this host, from its won claim to its recorded outcome.
type run struct {
	job    *Job
	grant  ledger.Grant
	log    *slog.Logger
	lease  *locking.Lease
	ctx    context.Context // the handler's
	cancel context.CancelCauseFunc
	kill   chan struct{} // closed by watch alone
	placed bool          // it has a place of the room

	deadlines jobs.Deadlines
	vouching  sync.Mutex // guards lost, and that deadlines move in order
	lost      bool
}

// execute runs the handler under the lease and records how it ended.
func (s *Scheduler) execute(r *run) {
	c := &r.grant.Claim
	defer r.cancel(nil)
	r.log.Info("run started", "host", c.Host, "lock", c.Lock, "lag", r.grant.Won.Sub(c.Tick), "kind", r.grant.Kind())

	output := jobs.NewOutput(s.opt.OutputBytes)
	lines := newOutputLog(awaited(r.log), defaultLogRoom())
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(r, over)
	}()
	result := make(chan jobs.Result, 1)
	go func() {
		defer s.handling.Done()
		res := callHandler(r.ctx, r.job.Handler, jobs.Run{
			Job: c.Job, ID: c.Run, Tick: c.Tick, Attempt: 1, Manual: c.Kind == ledger.Manual,
			Token: r.grant.Fence, Lock: c.Lock, Host: c.Host,
			Namespace: s.opt.Namespace, Config: s.opt.Config, Socket: s.opt.Socket,
			Output: tee{output, lines}, Kill: r.kill, Deadlines: &r.deadlines,
		})
		_ = lines.Close()
		result <- res
	}()
	var timeout <-chan time.Time
	if r.job.Timeout > 0 {
		timer := time.NewTimer(r.job.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	res, alive := s.await(r, result, timeout)
	close(over)
	<-watched
	r.lease.Stop()
	s.release(r)
	s.room.leave(&r.placed)
	s.record(r, res, alive, output)
	s.ended(c.Job, res.Outcome)
}

// await waits for the handler. It tells it about its timeout, and goes on without it if it does not
// return after its last call: what the run started may be alive then.
func (s *Scheduler) await(r *run, result <-chan jobs.Result, timeout <-chan time.Time) (res jobs.Result, alive bool) {
	kill := r.kill
	var giveUp <-chan time.Time
	for {
		select {
		case res := <-result:
			return res, false
		case <-timeout:
			r.cancel(fmt.Errorf("%w after %s", jobs.ErrTimedOut, r.job.Timeout))
		case <-kill:
			kill = nil
			timer := time.NewTimer(r.lastPatience())
			defer timer.Stop()
			giveUp = timer.C
		case <-giveUp:
			s.countStuck(r.grant.Claim.Job, 1)
			s.handling.Go(func() {
				<-result
				s.countStuck(r.grant.Claim.Job, -1)
			})
			outcome, reason, _ := jobs.EndOf(r.ctx)
			lock, effect := r.grant.Claim.Lock, "its lease is left to expire, and its job stays closed on this host until it returns"
			if killable(r.job.Handler) {
				r.log.Error("run did not end", "lock", lock, "reason", "what it started was killed, and is not gone", "effect", effect)
				return jobs.Result{Outcome: outcome, Reason: reason + "; what it started was killed and is not gone", Ended: time.Now()}, true
			}
			r.log.Error("handler did not stop", "lock", lock, "reason", "it ignores its context", "effect", effect)
			return jobs.Result{Outcome: outcome, Reason: reason + "; the handler did not stop", Ended: time.Now()}, true
		}
	}
}

// callHandler keeps a panic of a handler to its run, as [jobs.Func] does for functions: what it was is the
// reason, and its stack goes where the run's output goes.
func callHandler(ctx context.Context, h jobs.Handler, run jobs.Run) (res jobs.Result) {
	defer func() {
		if p := recover(); p != nil {
			res = jobs.Result{Outcome: jobs.Failed, Reason: fmt.Sprintf("panic: %v", p)}
			_, _ = fmt.Fprintf(run.Output, "panic: %v\n\n%s", p, debug.Stack())
		}
		if res.Ended.IsZero() {
			res.Ended = time.Now()
		}
	}()
	return h.Run(ctx, run)
}

// record says how the run ended, and delivers that to the ledger. alive: something of it may be.
func (s *Scheduler) record(r *run, res jobs.Result, alive bool, output *jobs.Output) {
	e := ledger.Ending{
		Outcome: string(res.Outcome), Reason: res.Reason, ExitCode: res.ExitCode, Attempt: max(res.Attempt, 1), Alive: alive,
		Started: s.clock.fromWall(res.Started), Ended: s.clock.fromWall(res.Ended),
		CPU: res.CPU, PeakMemoryBytes: res.PeakMemoryBytes,
	}
	if output.Total() > 0 {
		e.Output = output.Bytes()
	}
	level := slog.LevelInfo
	if res.Outcome != jobs.Succeeded {
		level = slog.LevelWarn
	}
	attrs := []any{"outcome", e.Outcome, "took", took(res)}
	if e.Attempt > 1 {
		attrs = append(attrs, "attempt", e.Attempt)
	}
	if e.Reason != "" {
		attrs = append(attrs, "reason", e.Reason)
	}
	r.log.Log(context.Background(), level, "run ended", attrs...)
	d := s.newDelivery(&r.grant, e, r.log)
	d.lease = r.lease
	s.deliver(d)
}

func took(res jobs.Result) time.Duration {
	if res.Started.IsZero() {
		return 0
	}
	return res.Ended.Sub(res.Started).Round(time.Millisecond)
}

// tee hands what a run prints to the ledger's copy and to the log.
type tee struct {
	kept  *jobs.Output
	lines *outputLog
}

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.kept.Write(p)
	return t.lines.Write(p)
}
