package cli

import (
	"context"
	"errors"
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
'rota lock' is ended. It sees that with its next renewal, and has as long as its lease lasts, and
besides the kill_grace of the job, or for a command lease.loss_grace.

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
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: lock, host, job, run, holder, token, left_ms, ttl_ms, result (free, released, expired, deleted)")
	return c
}

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
	if e, ok := errors.AsType[*exitError](err); ok {
		e.hint = strings.ReplaceAll(e.hint, "'rota status'", "'rota locks'")
	}
	if err != nil {
		return err
	}
	said := func(result, format string, args ...any) error {
		object := struct {
			lockView

			Result string `json:"result"` // free, released, expired or deleted
		}{lockView{Lock: name}, result}
		if lease != nil {
			object.lockView = viewLease(*lease)
		}
		return a.answer(asJSON, object, format, args...)
	}
	if lease == nil {
		return said("free", "%s is free", name)
	}
	holder := holderName(lease.Holder)
	end, err := s.awaitEnd(ctx, a, lease)
	if err != nil {
		return err
	}
	if end == stays {
		deleted, err := change(ctx, s, func(ctx context.Context) (bool, error) { return s.led.TakeAway(ctx, name, lease.Token) })
		if err != nil {
			return err
		}
		if deleted {
			a.hint("if it lives on, only its fencing token, %d, keeps it from writing", lease.Token)
			return said("deleted", "deleted the lease of %s on %s", holder, name)
		}
		end = expired // it was there to the last
	}
	if end == expired {
		return said("expired", "the lease of %s on %s has run out", holder, name)
	}
	return said("released", "%s has released %s", holder, name)
}

// leaseEnd is what became of a lease.
type leaseEnd int

const (
	stays leaseEnd = iota
	released
	expired // nobody renewed it for so long that it may have run out
)

// howGone tells of a lease that is gone by now how it ended, by when it was seen last and what was left of
// it then: one that was not due to end yet was deleted, by its holder.
func howGone(left time.Duration, seen, now time.Time) leaseEnd {
	if now.Sub(seen) < left {
		return released
	}
	return expired
}

// awaitEnd waits until the lease has ended, or for as long as its holder has for that.
func (s *session) awaitEnd(ctx context.Context, a *app, lease *ledger.Lease) (leaseEnd, error) {
	left, seen := lease.Left, time.Now()
	patience := lease.TTL + s.graceOf(lease)
	if lease.Job != "" {
		hosts, err := ask(ctx, s, s.led.Hosts)
		if err != nil {
			return stays, err
		}
		if !slices.ContainsFunc(hosts, func(h ledger.Host) bool { return h.Name == lease.Host }) {
			a.note("%s, which holds %s, is gone", holderName(lease.Holder), lease.Lock)
			patience = 0
		}
	}
	if patience > 0 {
		a.note("asked %s to release %s; waiting up to %s", holderName(lease.Holder), lease.Lock, patience.Round(time.Second/10))
	}
	for began := time.Now(); ; {
		asked := time.Now()
		now, err := ask(ctx, s, func(ctx context.Context) (*ledger.Lease, error) { return s.led.LeaseOf(ctx, lease.Lock) })
		switch {
		case err != nil:
			return stays, err
		case now == nil, now.Token != lease.Token:
			return howGone(left, seen, time.Now()), nil
		case time.Since(began) >= patience:
			return stays, nil
		}
		left, seen = now.Left, asked
		select {
		case <-ctx.Done():
			return stays, &exitError{code: exitFailed, text: "interrupted; the holder has been asked all the same"}
		case <-time.After(unlockLook):
		}
	}
}

// graceOf is how long the processes of a run, or of a command, may take to end.
func (s *session) graceOf(lease *ledger.Lease) time.Duration {
	for i := range s.cfg.Jobs {
		if s.cfg.Jobs[i].Name == lease.Job {
			return s.cfg.Jobs[i].KillGrace
		}
	}
	// That of a command keeps its proportion to the ttl, which rota lock --ttl may have set.
	c := s.cfg.Lease
	return time.Duration(float64(c.LossGrace) * float64(lease.TTL) / float64(c.TTL))
}
