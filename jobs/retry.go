package jobs

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Retry is a [Handler] that makes another attempt when one has failed. All of them belong to one run:
// they have its id, tick, lock and fencing token, and differ in run.Attempt, which rises by one.
//
// Only [Failed] is tried again. The other outcomes say that the run is over: it succeeded, or
// its context has ended, as it does with the job's timeout; that one is for the run, and so for all
// attempts and the waits between them together. Nothing begins after ctx has ended or run.Kill is
// closed.
//
// The wait before the n-th retry is drawn evenly from 0 to Backoff × 2ⁿ⁻¹, at most Max ("full
// jitter": M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015), so that
// what failed on many hosts at one instant does not come back at one instant.
//
// The Result is that of the last attempt, with its number, with the start of the first one that started,
// and with what all of them used: it is the run's. If the context ended while it waited, the outcome is that of
// the cause. What the attempts print goes to run.Output one after the other, with a line between
// them that says how the last one failed and when the next one begins.
//
// A Retry is not changed by Run; several goroutines may use it.
type Retry struct {
	Handler Handler       // required
	Retries int           // attempts after the first; 0 or less: none
	Backoff time.Duration // bound of the first wait; 0 or less: no wait at all
	Max     time.Duration // bound of every wait; 0 or less: none
}

var _ Handler = Retry{}

// Run makes attempts until one does not fail, none is left, or it is over.
func (r Retry) Run(ctx context.Context, run Run) Result {
	output := &endOfLine{to: run.Output}
	if run.Output != nil {
		run.Output = output
	}
	run.Attempt = max(run.Attempt, 1)
	var started time.Time
	var cpu time.Duration
	var peak int64
	for n := 1; ; n++ {
		result := r.Handler.Run(ctx, run)
		result.Attempt = run.Attempt
		if started.IsZero() {
			started = result.Started
		}
		result.Started = started
		cpu, peak = cpu+result.CPU, max(peak, result.PeakMemoryBytes)
		result.CPU, result.PeakMemoryBytes = cpu, peak
		if result.Outcome != Failed || n > r.Retries {
			return result
		}
		if outcome, reason, over := endOf(ctx, run.Kill); over {
			return overBefore(result, outcome, reason)
		}
		wait := r.wait(n)
		output.line("[attempt %d failed: %s; attempt %d in %s]",
			run.Attempt, result.Reason, run.Attempt+1, wait.Round(time.Millisecond))
		sleep(ctx, run.Kill, wait)
		if outcome, reason, over := endOf(ctx, run.Kill); over {
			return overBefore(result, outcome, reason)
		}
		run.Attempt++
	}
}

// overBefore is the result of a run that was over before its next attempt.
func overBefore(last Result, outcome Outcome, reason string) Result {
	last.Outcome = outcome
	last.Reason = fmt.Sprintf("%s; attempt %d had failed: %s", reason, last.Attempt, last.Reason)
	last.Ended = time.Now()
	return last
}

// wait draws what lies before the n-th retry, from 1.
func (r Retry) wait(n int) time.Duration {
	if r.Backoff <= 0 {
		return 0
	}
	most := r.Max
	if most <= 0 {
		most = 1<<63 - 2 // one is added to it below
	}
	bound := min(r.Backoff, most)
	for range n - 1 {
		if bound > most/2 {
			bound = most
			break
		}
		bound *= 2
	}
	return rand.N(bound + 1)
}

// sleep lasts d, or until the run is over.
func sleep(ctx context.Context, kill <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-kill:
	}
}

// Grace is how long the handler may take to end after its context did, 0 if it does not say.
func (r Retry) Grace() time.Duration {
	if h, ok := r.Handler.(interface{ Grace() time.Duration }); ok {
		return h.Grace()
	}
	return 0
}

// endOfLine passes on what is printed, and knows whether a line has been left open.
type endOfLine struct {
	to   io.Writer
	open bool
}

func (e *endOfLine) Write(p []byte) (int, error) {
	if len(p) > 0 {
		e.open = p[len(p)-1] != '\n'
	}
	return e.to.Write(p)
}

// line prints a line of its own. An output that fails changes nothing.
func (e *endOfLine) line(format string, args ...any) {
	if e.to == nil {
		return
	}
	text := fmt.Sprintf(format, args...) + "\n"
	if e.open {
		text = "\n" + text
	}
	_, _ = e.Write([]byte(text))
}
