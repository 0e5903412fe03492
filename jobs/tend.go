//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

var (
	// errNotStarted: the run was ended before its turn to start came.
	errNotStarted = errors.New("jobs: ended before it started")

	// errTooLate: its last instant had come before its turn to start did.
	errTooLate = fmt.Errorf("%w: it was about to end before the program could be started", ErrLost)

	// errOverdue: its StartBy came before it could be started.
	errOverdue = fmt.Errorf("%w: its start deadline came first", errUnstarted)

	// errExecHung: the warden has killed what was to become the program. The directory, the program or
	// its interpreter is on a file system that does not answer; or what these are loaded with.
	errExecHung = fmt.Errorf("%w: exec has not come back for %v and was killed: a file system does not answer", errUnstarted, startPatience)

	// errBehind: this host starts nothing while the exec of another run cannot even be killed.
	errBehind = fmt.Errorf("%w: it has waited for %v for another run's exec, which hangs: see the log", errUnstarted, startPatience)

	// errUnvouched: its last instant came, and nobody had moved it.
	errUnvouched = fmt.Errorf("%w: the daemon did not vouch for the run any longer", ErrLost)
)

// runInWarden has the warden start the program. It tells the warden what changes, and nothing that it
// waits for keeps the run alive: the warden has the deadlines.
func (c Command) runInWarden(ctx context.Context, run Run, s *spec) (Result, error) {
	if _, _, over := endOf(ctx, run.Kill); over {
		return Result{}, errNotStarted
	}
	out, files, err := c.standard(run)
	if err != nil {
		return Result{}, err
	}
	defer out.finish()
	if len(files) == 1 {
		s.own(files[0])
	}
	for {
		term, kill, moved := run.Deadlines.At()
		wd, err := c.Warden.start(ctx, run.Kill, s, files, startMessage{
			lease: leaseTimes{term, kill}, startBy: run.StartBy, grace: c.KillGrace,
			limits: c.Warden.cgroups.settable(c.Limits),
		})
		if err != nil {
			return Result{}, errors.Join(err, out.sent())
		}
		if c.tend(ctx, run, wd, out, moved); !wd.unsent {
			return c.tended(ctx, run, s, wd)
		}
		// That warden was lost before it heard of the run, so the next one may have it.
		if _, _, over := endOf(ctx, run.Kill); over {
			return Result{}, errors.Join(errNotStarted, out.sent())
		}
	}
}

// tend tells the warden what changes, until the run is over. It closes the output, unless the run may be
// started again.
func (c Command) tend(ctx context.Context, run Run, wd *ward, out *pipe, moved <-chan struct{}) {
	began, ended, killed := wd.began, ctx.Done(), run.Kill
	var signals <-chan os.Signal // from when there is somebody to get them
	for {
		select {
		case <-began:
			// From here on it is the program's alone, or nobody's.
			if began = nil; !wd.unsent {
				signals = c.Signals
				_ = out.sent()
			}
		case sig := <-signals:
			if sig, ok := sig.(syscall.Signal); ok {
				wd.signal(sig)
			}
		case <-moved:
			var term, kill time.Duration
			term, kill, moved = run.Deadlines.At()
			wd.move(term, kill)
		case <-ended:
			ended = nil
			outcome, _, over := EndOf(ctx)
			wd.end(c.grace(over, outcome, run.Kill != nil || run.Deadlines != nil))
		case <-killed:
			killed = nil
			wd.end(-1)
		case <-wd.over:
			if !wd.unsent {
				_ = out.sent()
			}
			return
		}
	}
}

// tended tells how a run in the warden ended.
func (c Command) tended(ctx context.Context, run Run, s *spec, wd *ward) (Result, error) {
	if wd.refused != nil {
		return Result{}, wd.refused
	}
	if wd.failed != nil {
		switch wd.failed.why {
		case failedLate:
			return Result{}, errTooLate
		case failedEnded:
			return Result{}, errNotStarted
		case failedOverdue:
			return Result{}, errOverdue
		case failedHung:
			return Result{}, errExecHung
		case failedBehind:
			return Result{}, errBehind
		case failedNice:
			return Result{}, &niceError{*s.nice, syscall.Errno(wd.failed.errno)}
		default:
			return Result{}, syscall.Errno(wd.failed.errno)
		}
	}
	outcome, reason, over := endOf(ctx, run.Kill)
	if wd.ended == nil {
		if !over {
			outcome, reason = Lost, fmt.Sprintf("the warden was lost: %v; every process of the run was killed", wd.lost)
		}
		return Result{
			Outcome: outcome, Reason: reason, Started: wd.started, Ended: time.Now(),
			CPU: wd.used.cpu, PeakMemoryBytes: wd.used.peakBytes,
		}, nil
	}
	result := Result{
		Started: wd.started, Ended: wd.at,
		CPU: wd.ended.usage.cpu, PeakMemoryBytes: wd.ended.usage.peakBytes,
	}
	c.judge(&result, syscall.WaitStatus(wd.ended.status))
	if result.Outcome == Failed && wd.ended.want != "" {
		result.Reason += "; " + wd.ended.want
	}
	// What it said itself counts unless it was ended, whatever happened by the time that was heard.
	if wd.ended.by == byItself {
		return result, nil
	}
	if !over || wd.ended.by == byDeadline && outcome != Lost {
		outcome, reason = Lost, words(errUnvouched)
	}
	result.Outcome, result.Reason = outcome, reason
	if wd.ended.killed {
		result.Reason += killedToo
	}
	return result, nil
}
