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

The command has this one's standard input, output and error, directory and environment, and
ROTA_FENCING_TOKEN, ROTA_LOCK, ROTA_HOST, ROTA_NAMESPACE and ROTA_CONFIG besides. SIGINT, SIGTERM
and SIGHUP are passed on to its process group, and a second one kills it. When it ends, what it
has left behind is ended too, and the lock is released when all are gone. When the lease is lost,
or this process stops or is killed, every process of the command is dead before another can hold
the lock.

Exit codes: the command's own, 128 + n after signal n; 75 another holds the lock; 79 the lease was
lost, or somebody asked for its end; 126 the command cannot be executed; 127 it is not there; 69
Redis unreachable; 2 wrong usage. For each but the first, standard error says so.`,
		Example: `  rota lock backup -- pg_dump -f /backup/db.sql db
  rota lock migrate --wait 5m --ttl 10s -- ./migrate up`,
		Args: func(c *cobra.Command, args []string) error { return lockArgs(c, args) },
		RunE: func(c *cobra.Command, args []string) error { return a.lock(c.Context(), args[0], args[1:], f) },
	}
	c.Flags().StringVar(&f.ttl, "ttl", "", "the lease lasts `D` without renewal, which comes as often in it as by the config, and its grace likewise (default lease.ttl)")
	c.Flags().StringVar(&f.wait, "wait", "", "wait `D` for the lock (default: not at all)")
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
			return usage("lock: %q cannot be a lock: names are 1 to 64 of A-Z a-z 0-9 . _ -, and those of one host have @HOST besides", args[0])
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
	if f.wait != "" {
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
	defer func() { _ = locker.Close() }()
	signals := lockSignals()
	lease, err := acquire(ctx, locker, name, wait, signals)
	if err != nil {
		return s.notLocked(name, err)
	}
	return a.under(h, locker, lease, signals, command, s.cfg) //nolint:contextcheck // what ends the command is a signal, or its lease
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

// acquire takes the lock, at once or within a time. The error is an *interruption if a signal came first.
func acquire(ctx context.Context, locker *locking.Locker, name string, wait time.Duration, signals <-chan os.Signal) (*locking.Lease, error) {
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
	var lease *locking.Lease
	var err error
	if wait == 0 {
		lease, err = locker.TryAcquire(ctx, name)
	} else {
		waiting, stop := context.WithTimeout(ctx, wait)
		lease, err = locker.Acquire(waiting, name)
		stop()
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

// notLocked says why there is no lease.
func (s *session) notLocked(name string, err error) error {
	if e, ok := errors.AsType[*interruption](err); ok {
		return &exitError{code: 128 + int(e.signal), text: name + ": " + e.Error()}
	}
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		return s.explain(err)
	}
	return &exitError{code: exitHeld, text: fmt.Sprintf("%s: the lock is held by %s", name, heldBy(held, time.Now()))}
}

// heldBy names a holder, since when it holds, and how long it will without a renewal. A fencing token is
// the time of its grant by Redis' clock, in microseconds, unless that clock was once ahead of itself.
func heldBy(e *locking.HeldError, now time.Time) string {
	who := plain(e.Holder)
	if parts := strings.SplitN(e.Holder, "/", 3); len(parts) == 3 {
		who = plain(parts[0])
		switch pid, isLock := strings.CutPrefix(parts[2], "lock:"); {
		case parts[1] != "":
			who += " for " + plain(parts[1])
			if parts[2] != "" {
				who += " (run " + plain(parts[2]) + ")"
			}
		case isLock:
			who += " (rota lock, pid " + plain(pid) + ")"
		}
	}
	since := ""
	const day = 24 * time.Hour
	if at := time.UnixMicro(e.FencingToken); at.After(now.Add(-3650*day)) && at.Before(now.Add(day)) {
		since = " since " + clock(at, now)
	}
	return fmt.Sprintf("%s%s, and for another %s if it is not renewed", who, since, took(e.Remaining))
}

// under runs the command under the lease, and ends both.
func (a *app) under(h *hold, locker *locking.Locker, lease *locking.Lease, signals <-chan os.Signal, command []string, cfg *config.Config) error {
	log := cfg.Log
	log.Level = max(log.Level, slog.LevelWarn) // what goes well is the command's to tell
	warden, err := jobs.StartWarden(jobs.WardenOptions{Logger: daemon.NewLogger(log, os.Stderr)})
	if err != nil {
		return errors.Join(err, lease.Release(context.Background()))
	}
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
	released := lease.Release(context.Background())
	if e := h.lost(lease.Name(), result, released); e != nil {
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
