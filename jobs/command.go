//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a [Handler] that starts a program, without a shell, in a process group of its own.
// The package comment says what the program gets and what becomes of its descendants.
//
// The outcome is that of ctx's cause if ctx ended before the main process did, also when it then
// exits with 0; [Lost] if run.Kill closed first; else [Succeeded] if its exit code is in
// SuccessCodes, and [Failed] if not, after a signal, or if it could not be started. The reason
// then tells the kinds of start failure apart; Started is zero and ExitCode nil. If ctx has
// ended already, or run.Kill is closed, nothing is started.
//
// Run waits for every process of the run, also for one that it has no right to signal or that
// hangs in the kernel. A Command is not changed by Run; several goroutines may use it. The program
// that it is part of must not wait for children in general (wait4(2) with -1): that takes the
// exit status away, and with it the hold on the pid.
type Command struct {
	// Args is the program and its arguments. A program without a slash is looked up in the PATH
	// of Env, or in [DefaultPath] if Env has none; any other is taken relative to Dir.
	Args []string

	// Dir is where the program starts. "" is "/"; a relative one begins at the daemon's own.
	Dir string

	// Env is the environment as "NAME=VALUE", see [BaseEnv]. Of two equal names the last counts.
	// [Environ] is added to it, and wins. Nothing of the daemon's own is added.
	Env []string

	// KillGrace is the time between SIGTERM and SIGKILL. 0 gives no time at all. After
	// [ErrLost] it counts only if run.Kill is nil.
	KillGrace time.Duration

	// SuccessCodes are the exit codes that mean success; none: 0 alone.
	SuccessCodes []int

	// Starter starts the program from a thread that lives as long as the daemon, so that the
	// program dies with it. Nil starts it without that.
	Starter *Starter
}

var _ Handler = Command{}

// Shell is the Args that run script by /bin/sh.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// Run starts the program and returns when the last of its processes is gone.
func (c Command) Run(ctx context.Context, run Run) Result {
	if outcome, reason, over := endOf(ctx, run.Kill); over {
		return Result{Outcome: outcome, Reason: reason, Ended: time.Now()}
	}
	main, out, err := c.start(ctx, run)
	if err != nil {
		result := Result{Outcome: Failed, Reason: err.Error(), Ended: time.Now()}
		if outcome, reason, over := endOf(ctx, run.Kill); over && errors.Is(err, errNotStarted) {
			result.Outcome, result.Reason = outcome, reason
		}
		return result
	}
	result := Result{Started: time.Now()}
	defer out.finish()
	g := watch(main, newProcs(main.Pid, run.ID, c.Starter.shared()), run.Kill)

	select {
	case <-g.exited:
	case <-ctx.Done():
	case <-run.Kill:
	}
	outcome, reason, over := endOf(ctx, run.Kill)
	select {
	case <-g.exited:
		// It ended untouched. Whatever else happened at that instant, its own word counts.
		over = false
	default:
	}

	grace := c.KillGrace
	if over && outcome == Lost && run.Kill != nil {
		grace = forever
	}
	killed := g.end(grace, run.Kill)
	status, err := g.reap()
	result.Ended = time.Now()

	var ok bool
	result.ExitCode, result.Reason, ok = c.judge(status, err)
	switch {
	case over:
		result.Outcome, result.Reason = outcome, reason
		if killed {
			result.Reason += "; ended by SIGKILL"
		}
	case ok:
		result.Outcome = Succeeded
	default:
		result.Outcome = Failed
	}
	return result
}

// judge reads the main process' end.
func (c Command) judge(state *os.ProcessState, err error) (code *int, reason string, ok bool) {
	if err != nil {
		// Somebody else in this program waits for children that are not theirs.
		return nil, "exit status lost: " + err.Error(), false
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		sig := status.Signal()
		reason = fmt.Sprintf("signal %v (%s)", sig, unix.SignalName(sig))
		if status.CoreDump() {
			reason += ", core dumped"
		}
		return new(128 + int(sig)), reason, false
	}
	exit := status.ExitStatus()
	if exit == 0 && len(c.SuccessCodes) == 0 || slices.Contains(c.SuccessCodes, exit) {
		return &exit, "", true
	}
	return &exit, fmt.Sprintf("exit code %d", exit), false
}

// Grace is how long a run may take to end after its context did: KillGrace.
func (c Command) Grace() time.Duration { return c.KillGrace }
