package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rota/locking"
	"rota/scheduler/ledger"
)

const (
	// takenWithin is how long a host has to take a manual run. By Redis' clock the hosts keep
	// the same limit, so a request whose withdrawal is lost is not run later either.
	takenWithin = ledger.RequestPatience
	lookEvery   = 100 * time.Millisecond
)

func (a *app) triggerCmd() *cobra.Command {
	var force, asJSON bool
	c := &cobra.Command{
		Use:   "trigger JOB",
		Short: "Run a job now, on some host",
		Long: `Ask the fleet to run a job now, and wait until a host has taken it; not until it ends.

The tick of the run is now, and it decides no tick of the schedule. If the lock of the job is
held nothing runs, and the exit code is 75. A job that is paused or disabled runs only with
--force. A request that no host takes within 10 s is withdrawn, and so is one whose command is
interrupted before. A job that runs on every host is triggered on one: JOB@HOST.`,
		Example: `  rota trigger nightly-report
  rota output $(rota trigger nightly-report --json | jq -r .run)`,
		Args: takes("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.trigger(c.Context(), args[0], force, asJSON)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also if the job is paused or disabled")
	c.Flags().BoolVar(&asJSON, "json", false, "print the history entry that answers the request")
	return c
}

func (a *app) trigger(ctx context.Context, name string, force, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	job, err := findOne(s.cfg, name)
	if err != nil {
		return err
	}
	// Who interrupts this command does not want the run any more: the request is withdrawn.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := ledger.Request{Job: job.key, Who: asker(s.cfg.Host.Name), Force: force}
	if r.ID, err = s.request(ctx, r); err != nil {
		return err
	}
	e, taken, err := s.await(ctx, r)
	if !taken {
		// Also when asking was refused: nobody would learn what became of the run.
		refusal := err
		e, taken, err = s.withdraw(context.WithoutCancel(ctx), r)
		err = cmp.Or(refusal, err)
	}
	switch {
	case err != nil:
		return err
	case !taken && ctx.Err() != nil:
		return &exitError{code: exitFailed, text: "interrupted; the request is withdrawn"}
	case !taken:
		return s.notTaken(ctx, job)
	}
	if asJSON {
		err = json.NewEncoder(a.stdout).Encode(e)
	} else if e.Run != "" {
		_, err = fmt.Fprintf(a.stdout, "run %s on %s with token %d\n", plain(e.Run), plain(e.Host), e.Token)
	}
	if err != nil || e.Run != "" {
		return err
	}
	return s.refused(ctx, &e)
}

// request files a request and returns its id.
func (s *session) request(ctx context.Context, r ledger.Request) (string, error) {
	unknown := false
	id, err := ask(ctx, s, func(ctx context.Context) (string, error) {
		id, err := s.led.Ask(ctx, r)
		unknown = locking.MayHaveRun(err)
		return id, err
	})
	if e, ok := errors.AsType[*exitError](err); ok && unknown {
		e.hint = fmt.Sprintf("if the request arrived, a host runs %s within %s: see 'rota history %s'", r.Job, takenWithin, r.Job)
	}
	return id, err
}

// await looks for the answer to a request until its time is over. A Redis that is away in
// between is waited for: a host may have taken the request, and its answer stays. The error is
// that of one that refuses to be asked.
func (s *session) await(ctx context.Context, r ledger.Request) (e ledger.Entry, taken bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		e, taken, err = s.answered(waiting, r)
		if taken {
			return e, true, nil
		}
		if isRefusal(err) {
			return e, false, err
		}
		select {
		case <-look.C:
		case <-waiting.Done():
			return ledger.Entry{}, false, nil
		}
	}
}

// isRefusal tells that asking again is no use.
func isRefusal(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.code != exitUnreachable
}

func (s *session) answered(ctx context.Context, r ledger.Request) (e ledger.Entry, taken bool, err error) {
	e, err = ask(ctx, s, func(ctx context.Context) (e ledger.Entry, err error) {
		e, taken, err = s.led.Answered(ctx, r)
		return e, err
	})
	return e, taken, err
}

// withdraw takes a request back. If a host was faster, its answer is there by now: the script
// that takes a request also writes that.
func (s *session) withdraw(ctx context.Context, r ledger.Request) (e ledger.Entry, taken bool, err error) {
	mine, err := ask(ctx, s, func(ctx context.Context) (bool, error) { return s.led.Withdraw(ctx, r.ID) })
	if e, ok := errors.AsType[*exitError](err); ok {
		e.text += "; it is not known whether the job runs"
		e.hint = fmt.Sprintf("no host takes the request after %s: 'rota history %s' tells whether one did", takenWithin, r.Job)
	}
	if err != nil {
		return e, false, err
	}
	if mine {
		return e, false, nil
	}
	return s.answered(ctx, r)
}

// refused makes the error of a request that a host answered without a run.
func (s *session) refused(ctx context.Context, e *ledger.Entry) error {
	holder, held := holderOf(e)
	reason := plain(e.Reason)
	switch {
	case held:
		return &exitError{code: exitHeld, text: fmt.Sprintf("%s: the lock is held by %s", e.Job, s.holder(ctx, e.Job, holder))}
	case e.Reason == "disabled" || strings.HasPrefix(e.Reason, "paused"):
		return &exitError{
			code: exitFailed, text: fmt.Sprintf("%s is %s", e.Job, reason),
			hint: "'rota trigger " + e.Job + " --force' runs it all the same",
		}
	}
	return &exitError{code: exitFailed, text: fmt.Sprintf("%s was not run: %s", e.Job, reason)}
}

// holderOf is who held the lock, where that is why a request was refused. Entries of hosts that
// did not record it yet have it in their reason, and so have those of a holder without a name.
func holderOf(e *ledger.Entry) (holder string, held bool) {
	if e.Holder != "" {
		return e.Holder, true
	}
	return strings.CutPrefix(e.Reason, "held by ")
}

// holder names the holder of the job's lock, with its run if that is this job's own.
func (s *session) holder(ctx context.Context, job, name string) string {
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) {
		return s.led.State(ctx, []string{job})
	})
	if err == nil && len(states) == 1 && states[0].Running && states[0].Holder == name {
		return plain(fmt.Sprintf("%s (run %s)", name, states[0].HolderRun))
	}
	return plain(name)
}

// notTaken makes the error of a request that was withdrawn, with what may be the reason.
func (s *session) notTaken(ctx context.Context, job ref) error {
	e := &exitError{code: exitFailed, text: fmt.Sprintf("no host took %s within %s; the request is withdrawn", job.key, takenWithin)}
	hosts, err := ask(ctx, s, s.led.Hosts)
	if err != nil {
		return e
	}
	there := len(hosts)
	hosts = slices.DeleteFunc(hosts, func(h ledger.Host) bool { return !job.mayRun(h) })
	var draining, full, other []string
	for _, h := range hosts {
		switch {
		case h.Draining:
			draining = append(draining, plain(h.Name))
		case h.Table != s.cfg.TableHash():
			other = append(other, plain(h.Name))
		case h.MaxRuns > 0 && h.Running >= h.MaxRuns:
			full = append(full, plain(h.Name))
		}
	}
	switch {
	case there == 0:
		e.hint = "no host is there: start one with 'rota run'"
	case len(hosts) == 0 && job.host != "":
		e.hint = plain(job.host) + " is not there, or may not run it"
	case len(hosts) == 0:
		e.hint = "no host that may run it is there: hosts = " + strings.Join(job.Hosts, ", ")
	case len(full) == len(hosts):
		e.hint = "every host has as many runs as host.max_runs lets it: " + strings.Join(full, ", ")
	case len(draining) == len(hosts):
		e.hint = "every host drains: " + strings.Join(draining, ", ")
	case len(other) > 0:
		e.hint = fmt.Sprintf("another table than %s is on %s; the job may not be in it", s.cfg.Path, strings.Join(other, ", "))
	default:
		e.hint = "hosts are there; their logs may tell why they did not claim it"
	}
	return e
}
