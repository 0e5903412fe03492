package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rota/scheduler/ledger"
)

func (a *app) unlockCmd() *cobra.Command {
	var force, asJSON bool
	var reason string
	c := &cobra.Command{
		Use:   "unlock NAME --force",
		Short: "Have a lock released, by its holder if that answers",
		Long: `Have the holder of a lock end its work and release it: a run of a job is cancelled, a command under
'rota lock' is ended. It has as long as a lease lasts, and the kill_grace of its processes besides.

Only if it has not released the lock by then, or if its host is gone, the lease is deleted. A holder
that lives on all the same learns of it with its next renewal; until then two may be at work, and
only the fencing token keeps the older one from writing. So this needs --force.`,
		Example: `  rota locks
  rota unlock nightly-report --force --reason "web-1 is being rebuilt"`,
		Args: takes("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if !force {
				return usage("unlock ends what is done under the lock: say --force if that is meant")
			}
			return a.unlock(c.Context(), args[0], reason, asJSON)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "end what is done under the lock")
	c.Flags().StringVar(&reason, "reason", "", "why, told to the holder"+reasonHelp)
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: lock, host, job, run, holder, token, left_ms, ttl_ms, result")
	return c
}

// commandGrace is what a command under 'rota lock' has between SIGTERM and SIGKILL at most.
const commandGrace = 10 * time.Second

// unlockLook is the distance of looks at the lock.
const unlockLook = 200 * time.Millisecond

func (a *app) unlock(ctx context.Context, name, reason string, asJSON bool) error {
	if name == "" || len(name) > 512 || strings.ContainsAny(name, "{}") {
		return usage("%.40q cannot name a lock: 'rota locks' has those that are held", name)
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	by, err := s.by(reason)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	lease, err := change(ctx, s, func(ctx context.Context) (*ledger.Lease, error) { return s.led.AskToEnd(ctx, name, by) })
	if err != nil {
		return err
	}
	said := func(result, format string, args ...any) error {
		object := struct {
			lockView

			Result string `json:"result"` // free, released or deleted
		}{lockView{Lock: name}, result}
		if lease != nil {
			object.lockView = viewLease(*lease)
		}
		return a.answer(asJSON, object, format, args...)
	}
	if lease == nil {
		return said("free", "%s is free", name)
	}
	released, err := s.awaitRelease(ctx, a, lease)
	switch {
	case err != nil:
		return err
	case released:
		return said("released", "%s has released %s", plain(lease.Holder), name)
	}
	deleted, err := change(ctx, s, func(ctx context.Context) (bool, error) { return s.led.TakeAway(ctx, name, lease.Token) })
	switch {
	case err != nil:
		return err
	case !deleted:
		return said("released", "%s has released %s", plain(lease.Holder), name)
	}
	a.hint("if it lives on, only its fencing token, %d, keeps it from writing", lease.Token)
	return said("deleted", "deleted the lease of %s on %s", plain(lease.Holder), name)
}

// awaitRelease waits until the holder has released its lease, or for as long as it has for that.
func (s *session) awaitRelease(ctx context.Context, a *app, lease *ledger.Lease) (released bool, err error) {
	patience := lease.TTL + s.graceOf(lease.Job)
	if lease.Job != "" {
		hosts, err := ask(ctx, s, s.led.Hosts)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(hosts, func(h ledger.Host) bool { return h.Name == lease.Host }) {
			a.note("%s, which holds %s, is gone", plain(lease.Host), lease.Lock)
			patience = 0
		}
	}
	if patience > 0 {
		a.note("asked %s to release %s; waiting up to %s", plain(lease.Holder), lease.Lock, patience)
	}
	for began := time.Now(); ; {
		now, err := ask(ctx, s, func(ctx context.Context) (*ledger.Lease, error) { return s.led.LeaseOf(ctx, lease.Lock) })
		if err != nil || now == nil || now.Token != lease.Token {
			return true, err
		}
		if time.Since(began) >= patience {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, &exitError{code: exitFailed, text: "interrupted; the holder has been asked all the same"}
		case <-time.After(unlockLook):
		}
	}
}

// graceOf is how long the processes of a run, or of a command, may take to end.
func (s *session) graceOf(job string) time.Duration {
	for i := range s.cfg.Jobs {
		if s.cfg.Jobs[i].Name == job {
			return s.cfg.Jobs[i].KillGrace
		}
	}
	return commandGrace
}
