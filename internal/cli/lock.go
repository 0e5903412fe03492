package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/internal/daemon"
	"rota/jobs"
	"rota/locking"
)

// lockFlags are the flags of lock.
type lockFlags struct{ ttl, wait string }

func (a *app) lockCmd() *cobra.Command {
	var f lockFlags
	c := &cobra.Command{
		Use:   "lock NAME [--ttl D] [--wait D] -- COMMAND [ARG…]",
		Short: "Run a command under a lease",
		Long: `Run a command under a lease on the lock NAME of the config's fleet: the locks of its jobs, and
those that only this command names. While another holds it nothing is run.

That is exclusion, not once per tick: three crontabs with a short command run it three times, one
after the other; a job of the table runs once.

The command has this one's standard input, output and error, directory and environment, and
ROTA_FENCING_TOKEN, ROTA_LOCK, ROTA_HOST, ROTA_NAMESPACE and ROTA_CONFIG besides, but no terminal:
programs that ask for a password on /dev/tty fail. SIGINT, SIGTERM and SIGHUP are passed on to its
process group, and a second one kills it; ^Z stops nothing. When it ends, what it has left behind
is ended too, and the lock is released when all are gone. When the lease is lost, or this process
is stopped or killed, every process of the command is dead before another can hold the lock. Not
if this process and its rota-warden are killed or stopped at once: then what the command has
started may live on.

Exit codes: the command's own, 128 + n after signal n; 75 another holds the lock; 79 the lease was
lost, or somebody asked for its end; 126 the command cannot be executed; 127 it is not there; 69
Redis unreachable or not ready; 2 wrong usage. For each but the first, standard error says so.`,
		Example: `  rota lock backup -- pg_dump -f /backup/db.sql db
  rota lock migrate --wait 5m --ttl 10s -- ./migrate up`,
		Args: func(c *cobra.Command, args []string) error { return lockArgs(c, args) },
		RunE: func(c *cobra.Command, args []string) error { return a.lock(c.Context(), args[0], args[1:], f) },
	}
	c.Flags().StringVar(&f.ttl, "ttl", "", "the lease lasts `D` without renewal, which comes as often in it as by the config, and its grace likewise (default lease.ttl)")
	c.Flags().StringVar(&f.wait, "wait", "", "wait `D` for the lock; 0: not at all")
	return c
}

// lockArgs checks the arguments of lock. What stands behind the dashes is the command's, flags and all.
func lockArgs(c *cobra.Command, args []string) error {
	fault := ""
	switch dash := c.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		fault = "argument NAME is missing"
	case dash < 0:
		fault = "the command is to stand behind --"
	case dash > 1:
		fault = fmt.Sprintf("argument %q is one too many before --", args[1])
	case len(args) == 1 || args[1] == "":
		fault = "argument COMMAND is missing"
	default:
		if !isLockName(args[0]) {
			return usage("lock: %.40q cannot be a lock: names are 1 to 64 of A-Z a-z 0-9 . _ -, and those of one host have @HOST besides", args[0])
		}
		return nil
	}
	return &exitError{code: exitUsage, text: "lock: " + fault, hint: "see 'rota lock -h'"}
}

// isLockName holds a lock to the rule of names; that of a job which runs on every host has its host.
func isLockName(s string) bool {
	name, host, has := strings.Cut(s, "@")
	return isName(name) && (!has || isName(host))
}

func (a *app) lock(ctx context.Context, name string, command []string, f lockFlags) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	times, err := lockTimes(s.cfg, f.ttl)
	if err != nil {
		return err
	}
	var wait time.Duration
	if f.wait != "" && f.wait != "0" {
		if wait, err = config.ParseDuration(f.wait); err != nil {
			return usage("--wait: %v", err)
		}
	}
	h := newHold(times, s.cfg.Lease.OnRenewError == "cancel")
	locker, err := locking.New(s.client, locking.Options{ //nolint:contextcheck // what it does by itself ends with Close
		Prefix: "{" + s.cfg.Namespace + "}:lock:", TTL: times.ttl, RenewEvery: times.renewEvery,
		CallTimeout: s.cfg.Redis.OpTimeout, Observe: h.observe,
		// As the holders of jobs' leases: HOST/JOB/RUN. This is no job's.
		Holder: fmt.Sprintf("%s//lock:%d", s.cfg.Host.Name, os.Getpid()),
	})
	if err != nil {
		return fmt.Errorf("lock %q: %w", name, err)
	}
	farewell := min(s.cfg.Redis.OpTimeout, mostFarewell)
	defer func() { _ = within(farewell, locker.Close) }()
	signals := lockSignals()
	began := time.Now()
	lease, err := acquire(ctx, locker, name, s.cfg.Redis.OpTimeout, wait, signals)
	if err != nil {
		return s.notLocked(name, err, max(s.cfg.Redis.OpTimeout, time.Since(began).Round(100*time.Millisecond)))
	}
	return a.under(h, locker, lease, signals, command, s, farewell) //nolint:contextcheck // what ends the command is a signal, or its lease
}

// mostFarewell is how long the end waits at most for a Redis that may be told something then, and does not
// answer: who waits for this process is not to wait for that. A lease ends by itself.
const mostFarewell = 500 * time.Millisecond

// within does something that may take too long, and leaves it then, with an error that says so: this
// process is about to end.
func within(d time.Duration, do func() error) error {
	over := make(chan error, 1)
	go func() { over <- do() }()
	select {
	case err := <-over:
		return err
	case <-time.After(d):
		return fmt.Errorf("%w: no answer within %s", locking.ErrUnavailable, d)
	}
}

// lockSignals is where the signals arrive that are the command's. One that was ignored when this process
// started stays so, for the command as well: nohup(1), and what a shell starts in the background.
func lockSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 8)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	// A log whose reader has gone must not end the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals
}

// An interruption is a signal that came before there was a command to have it.
type interruption struct{ signal syscall.Signal }

func (e *interruption) Error() string { return e.signal.String() + ": nothing was run" }

// acquire takes the lock, at once or within a time. However short that is, one attempt is made, which may
// take as long as a call to Redis may. The error is an *interruption if a signal came first.
func acquire(ctx context.Context, locker *locking.Locker, name string, call, wait time.Duration, signals <-chan os.Signal) (*locking.Lease, error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		select {
		case sig := <-signals:
			if sig, ok := sig.(syscall.Signal); ok {
				cancel(&interruption{sig})
			}
		case <-done:
		}
	}()
	first, stop := context.WithTimeout(ctx, call)
	lease, err := locker.TryAcquire(first, name)
	stop()
	left := wait - time.Since(began)
	if left > 0 && ctx.Err() == nil && (errors.Is(err, locking.ErrHeld) || errors.Is(err, locking.ErrUnavailable) || isTimeout(err)) {
		waiting, stop := context.WithTimeout(ctx, left)
		var last error
		lease, last = locker.Acquire(waiting, name)
		stop()
		// A wait that was over before it had an answer knows no more than the first attempt.
		if last == nil || !isTimeout(last) || errors.Is(last, locking.ErrHeld) || errors.Is(last, locking.ErrUnavailable) {
			err = last
		}
	}
	close(done)
	<-heard
	if e, ok := errors.AsType[*interruption](context.Cause(ctx)); ok {
		if lease != nil {
			_ = lease.Release(ctx)
		}
		return nil, e
	}
	return lease, err
}

// notLocked says why there is no lease, after so long.
func (s *session) notLocked(name string, err error, after time.Duration) error {
	if e, ok := errors.AsType[*interruption](err); ok {
		return &exitError{code: 128 + int(e.signal), text: name + ": " + e.Error()}
	}
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		return s.explainAfter(err, after)
	}
	return &exitError{code: exitHeld, text: fmt.Sprintf("%s: the lock is held by %s", name, heldBy(held, time.Now()))}
}

// holderName names a holder as people are told of it: HOST/JOB/RUN is a run's, HOST//lock:PID a command's,
// and anything else another program's own.
func holderName(holder string) string {
	parts := strings.SplitN(holder, "/", 3)
	if len(parts) < 3 {
		return plain(holder)
	}
	host, job, run := plain(parts[0]), plain(parts[1]), plain(parts[2])
	pid, isLock := strings.CutPrefix(run, "lock:")
	switch {
	case job != "" && run != "":
		return fmt.Sprintf("%s for %s (run %s)", host, job, run)
	case job != "":
		return fmt.Sprintf("%s for %s", host, job)
	case isLock:
		return fmt.Sprintf("%s (rota lock, pid %s)", host, pid)
	}
	return plain(holder)
}

// heldBy names a holder, since when it holds, and how long it will without a renewal. A fencing token is
// the time of its grant by Redis' clock, in microseconds, unless that clock was once ahead of itself.
func heldBy(e *locking.HeldError, now time.Time) string {
	since := ""
	const day = 24 * time.Hour
	if at := time.UnixMicro(e.FencingToken); at.After(now.Add(-3650*day)) && at.Before(now.Add(day)) {
		since = " since " + clock(at, now)
	}
	return fmt.Sprintf("%s%s, and for another %s if it is not renewed", holderName(e.Holder), since, took(e.Remaining))
}

// under runs the command under the lease, and ends both.
func (a *app) under(h *hold, locker *locking.Locker, lease *locking.Lease, signals <-chan os.Signal, command []string, s *session, farewell time.Duration) error {
	cfg := s.cfg
	log := cfg.Log
	log.Level = max(log.Level, slog.LevelWarn) // what goes well is the command's to tell
	warden, err := jobs.StartWarden(jobs.WardenOptions{Logger: daemon.NewLogger(log, os.Stderr)})
	if err != nil {
		return errors.Join(err, lease.Release(context.Background()))
	}
	h.note = func(text string) { a.note("%s: %s", lease.Name(), text) }
	result := h.run(locker, lease, signals, jobs.Command{
		Args: command, Dir: ".", Base: os.Environ(), KillGrace: h.times.grace,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Warden: warden,
	}, jobs.Run{
		Token: lease.FencingToken(), Lock: lease.Name(), Host: cfg.Host.Name,
		Namespace: cfg.Namespace, Config: cfg.Path,
	})
	// The warden takes with it what of the command it could not tell, and only then is the lock free.
	if err := warden.Close(); err != nil {
		return &exitError{code: exitFailed, text: fmt.Sprintf("%s: the lock is left until its lease ends: %v", lease.Name(), err)}
	}
	patience := 2 * cfg.Redis.OpTimeout // it has a shorter one of its own
	if result.Outcome == jobs.Lost {
		patience = farewell
	}
	released := within(patience, func() error { return lease.Release(context.Background()) })
	if e := h.lost(lease.Name(), result, released, s.cause); e != nil {
		return e
	}
	if released != nil {
		a.note("%s: not released, the lock is free within %s: %v", lease.Name(), h.times.ttl, released)
	}
	return commandError(command[0], result)
}

// commandError gives the end of a command its exit code. Nil: it was 0.
func commandError(program string, r jobs.Result) error {
	switch {
	case r.ExitCode == nil && r.Outcome == jobs.Lost:
		return &exitError{code: 128 + int(syscall.SIGKILL)} // before it could be told what it died of
	case r.ExitCode == nil:
		return &exitError{code: startCode(program), text: plain(r.Reason)}
	case *r.ExitCode != 0:
		return &exitError{code: *r.ExitCode} // it has said why, if it liked
	}
	return nil
}

// startCode is that of a command which was not started: the shell's, and of env(1) and timeout(1).
func startCode(program string) int {
	const cannotExecute, notFound = 126, 127
	if _, err := exec.LookPath(program); errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return notFound
	}
	return cannotExecute
}
