package jobs

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Outcome says how a run ended. The values are those of the ledger and of the JSON output.
type Outcome string

// The outcomes a run can have.
const (
	Succeeded   Outcome = "succeeded"
	Failed      Outcome = "failed"      // it ended by itself, badly, or never started
	TimedOut    Outcome = "timed_out"   // it ran into the job's timeout, whatever it answered then
	Lost        Outcome = "lost"        // its lease could not be kept
	Cancelled   Outcome = "cancelled"   // somebody asked for its end
	Interrupted Outcome = "interrupted" // its daemon was stopped under it
)

// The causes with which a run's context ends. They are matched with [errors.Is]; the errors
// that wrap them say more.
var (
	ErrTimedOut    = errors.New("jobs: timed out")
	ErrLost        = errors.New("jobs: lease lost")
	ErrCancelled   = errors.New("jobs: cancelled")
	ErrInterrupted = errors.New("jobs: interrupted")
)

// Result is how one attempt ended.
type Result struct {
	Outcome Outcome
	Reason  string // why, for a person; "" when it succeeded

	// ExitCode is the program's exit code, 128 + n after signal n, and nil when no program was
	// started or there is none.
	ExitCode *int

	// Unstarted tells of one that failed because it could not be started in time, by Run.StartBy or because
	// this host starts nothing at the moment. No program was executed; or it was just being, and was killed.
	Unstarted bool

	// Attempt is the number of the attempt, as [Retry] sets it; 0: the one that the run began with.
	Attempt int

	Started time.Time // when exec was done, the connection stood, or the Go handler was called; zero if it never was
	Ended   time.Time // when the last of it was gone

	// What the processes of a command used. In a cgroup it is that of all of them. Without, it is as
	// getrusage(2) counts it: of each that its parent waited for, or the warden did. Of several attempts
	// it is that of all together. Zero if it is not known, as of Go handlers.
	CPU time.Duration // user and system time

	// PeakMemoryBytes is the most memory that they had at a time, page cache included, where their
	// cgroup has the controller (memory.peak, Linux 5.19); elsewhere the resident memory of the one that
	// had most, at least that of the process it was forked by.
	PeakMemoryBytes int64
}

// EndOf tells the outcome that the end of ctx gives a run, and the reason, for a person: what the
// cause says, without this package's name. ok is false while ctx
// is not done. An end without one of this package's causes counts as [Interrupted].
func EndOf(ctx context.Context) (outcome Outcome, reason string, ok bool) {
	if ctx.Err() == nil {
		return "", "", false
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, ErrTimedOut):
		outcome = TimedOut
	case errors.Is(cause, ErrLost):
		outcome = Lost
	case errors.Is(cause, ErrCancelled):
		outcome = Cancelled
	default:
		outcome = Interrupted
	}
	return outcome, words(cause), true
}

// words is what a cause says to a person.
func words(cause error) string { return strings.TrimPrefix(cause.Error(), "jobs: ") }

// endOf is [EndOf] for a handler, which may also be told to be gone through kill alone. That is
// a lease about to end.
func endOf(ctx context.Context, kill <-chan struct{}) (outcome Outcome, reason string, ok bool) {
	if outcome, reason, ok = EndOf(ctx); ok {
		return outcome, reason, true
	}
	select {
	case <-kill:
		return Lost, words(ErrLost), true
	default:
		return "", "", false
	}
}
