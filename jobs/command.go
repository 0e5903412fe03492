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
// exits with 0; [Lost] if run.Kill closed first, if the run's [Deadlines] came first, or if the
// warden was lost; else [Succeeded] if its exit code is in SuccessCodes, and [Failed] if not, after a
// signal, or if it could not be started. The reason then tells the kinds of start failure apart;
// Started is zero and ExitCode nil. If ctx has ended already, or run.Kill is closed, nothing is
// started.
//
// Run waits for every process of the run, also for one that it has no right to signal or that
// hangs in the kernel. A Command is not changed by Run; several goroutines may use it. Without a
// Warden the program that it is part of must not wait for children in general (wait4(2) with -1):
// that takes the exit status away, and with it the hold on the pid.
type Command struct {
	// Args is the program and its arguments. A program without a slash is looked up in the PATH
	// of its environment, or in [DefaultPath] if that has none; any other is taken relative to Dir.
	Args []string

	// Dir is where the program starts. "" is "/"; a relative one begins at the daemon's own.
	Dir string

	// The environment is made of these, each as "NAME=VALUE". Each wins over the one before, of two equal
	// names in one the last, and [Environ] over all of them. Nothing of the daemon's own is added.
	Base    []string // see [BaseEnv]
	EnvFile string   // a file, see [ParseEnv], that is read at the start; "": none
	Env     []string // the job's own

	// User and Group are whom the program runs as, by name or number, see [LookupAccount]. With a User,
	// HOME, USER, LOGNAME and SHELL are its account's, whatever Base says. "" is what the daemon has.
	User, Group string

	// Umask is what new files do not get, 0 to 0777, and Nice the priority, from -20 to 19 (nice(1)).
	// Nil is what the daemon has.
	Umask, Nice *int

	// KillGrace is the time between SIGTERM and SIGKILL. 0 gives no time at all. After
	// [ErrLost] it counts only if neither run.Kill nor run.Deadlines is there to say more.
	KillGrace time.Duration

	// SuccessCodes are the exit codes that mean success; none: 0 alone.
	SuccessCodes []int

	// Limits are for all processes of one attempt together. They take a Warden with cgroups, see
	// [Warden.Lacking]; without, a program runs all the same.
	Limits Limits

	// Files are the program's descriptors 0, 1 and 2, all of them or none. They stay the caller's, and open
	// until Run returns; run.Output gets nothing then. None: /dev/null, and twice a pipe to run.Output.
	Files []*os.File

	// Signals are passed on to the program's process group as they come, and change nothing else: what
	// the program makes of one is its own affair. It takes a Warden. Nil: none.
	Signals <-chan os.Signal `json:"-"`

	// Warden starts the program and ends it, whatever becomes of this process. Nil: this process
	// does both, as long as it can; run.Deadlines do nothing then.
	Warden *Warden
}

var _ Handler = Command{}

// Shell is the Args that run script by /bin/sh.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// Run starts the program and returns when the last of its processes is gone.
func (c Command) Run(ctx context.Context, run Run) Result {
	if outcome, reason, over := endOf(ctx, run.Kill); over {
		return Result{Outcome: outcome, Reason: reason, Ended: time.Now()}
	}
	s, err := c.prepare(ctx, run)
	if err == nil {
		var result Result
		if result, err = c.start(ctx, run, s); err == nil {
			return result
		}
	}
	result := Result{Outcome: Failed, Reason: err.Error(), Ended: time.Now(), Unstarted: errors.Is(err, errUnstarted)}
	if outcome, reason, over := endOf(ctx, run.Kill); over && errors.Is(err, errNotStarted) {
		result.Outcome, result.Reason = outcome, reason
	} else if errors.Is(err, errTooLate) {
		result.Outcome, result.Reason = Lost, words(errTooLate)
	}
	return result
}

// start sees the program through. The error is why it was not started.
func (c Command) start(ctx context.Context, run Run, s *spec) (result Result, err error) {
	if run.overdue() {
		return Result{}, fmt.Errorf("start %q: %w", c.Args[0], errOverdue)
	}
	through := c.runHere
	if c.Warden != nil {
		through = c.runInWarden
	}
	result, err = through(ctx, run, s)
	if errors.Is(err, unix.ETXTBSY) {
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
		case <-run.Kill:
		}
		result, err = through(ctx, run, s)
	}
	if err != nil {
		err = fmt.Errorf("start %q: %w", c.Args[0], c.explained(ctx, run, s, err))
	}
	return result, err
}

// explained is the error in words, if there is a file system that can be asked for them.
func (c Command) explained(ctx context.Context, run Run, s *spec, err error) error {
	if _, ok := errors.AsType[unix.Errno](err); !ok {
		return err
	}
	var words error
	if c.aside(ctx, run, func() error { s.as.looking(func() { words = explain(err, s) }); return nil }) != nil {
		return err
	}
	return words
}

// runHere starts the program as a child of this process.
func (c Command) runHere(ctx context.Context, run Run, s *spec) (Result, error) {
	if _, _, over := endOf(ctx, run.Kill); over {
		return Result{}, errNotStarted
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return Result{}, err
	}
	defer null.Close()
	out, files, err := c.standard(run)
	if err != nil {
		return Result{}, err
	}
	defer out.finish()
	defer func() { _ = out.sent() }()
	switch len(files) {
	case 0:
		files = []*os.File{null, null, null}
	case 1:
		s.own(files[0])
		files = []*os.File{null, files[0], files[0]}
	}
	main, err := s.fork(&os.ProcAttr{
		Dir: s.dir, Env: s.env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Credential: s.as.credential()},
	})
	if err != nil {
		return Result{}, err
	}
	result := Result{Started: time.Now()}
	g := watch(main, newProcs(main.Pid, run.ID, newEnvirons()), run.Kill)
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
	killed := g.end(c.grace(over, outcome, run.Kill != nil), run.Kill)
	state, err := g.reap()
	result.Ended = time.Now()
	if err != nil {
		// Somebody else in this program waits for children that are not theirs.
		result.Outcome, result.Reason = Failed, "exit status lost: "+err.Error()
	} else {
		status, _ := state.Sys().(syscall.WaitStatus)
		c.judge(&result, status)
		if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
			used := usageOf(ru)
			result.CPU, result.PeakMemoryBytes = used.cpu, used.peakBytes
		}
	}
	if over {
		result.Outcome, result.Reason = outcome, reason
		if killed {
			result.Reason += killedToo
		}
	}
	return result, nil
}

// killedToo is said of a run that did not end by SIGTERM.
const killedToo = "; ended by SIGKILL"

// grace is the time between SIGTERM and SIGKILL of a run that is ended. Where somebody else says when
// a lost run has to be gone, there is none of its own.
func (c Command) grace(over bool, outcome Outcome, told bool) time.Duration {
	if over && outcome == Lost && told {
		return never
	}
	return c.KillGrace
}

// judge reads the main process' end.
func (c Command) judge(result *Result, status syscall.WaitStatus) {
	if status.Signaled() {
		sig := status.Signal()
		result.Outcome, result.Reason = Failed, fmt.Sprintf("signal %v (%s)", sig, unix.SignalName(sig))
		if status.CoreDump() {
			result.Reason += ", core dumped"
		}
		result.ExitCode = new(128 + int(sig))
		return
	}
	exit := status.ExitStatus()
	result.ExitCode = &exit
	if exit == 0 && len(c.SuccessCodes) == 0 || slices.Contains(c.SuccessCodes, exit) {
		result.Outcome = Succeeded
		return
	}
	result.Outcome, result.Reason = Failed, fmt.Sprintf("exit code %d", exit)
}

// Grace is how long a run may take to end after its context did: KillGrace.
func (c Command) Grace() time.Duration { return c.KillGrace }
