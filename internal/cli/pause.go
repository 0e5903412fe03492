package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

// pauseFlags are the flags of pause.
type pauseFlags struct {
	all            bool
	length, reason string
	json           bool
}

func (a *app) pauseCmd() *cobra.Command {
	var f pauseFlags
	c := &cobra.Command{
		Use:   "pause JOB|--all",
		Short: "Hold a job's ticks back, on every host",
		Long: `Hold the ticks of a job back, or with --all those of the whole fleet, until it is resumed
or the time of --for is over. It survives restarts of every daemon. Runs that are going on are
not touched. The ticks inside a pause are recorded as skipped, with who paused and why, and are
not caught up. To pause what is paused sets its end anew, and may be sooner.

A job that runs on every host is JOB@HOST on each. JOB alone is all of them, also those of hosts that
are away, or come later. Each pause ends by itself: to resume JOB@HOST does not end that of JOB.`,
		Example: `  rota pause nightly-report --for 2h --reason "database upgrade"
  rota pause --all`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.pause(c.Context(), args, f) },
	}
	c.Flags().BoolVar(&f.all, "all", false, "every job of the fleet")
	c.Flags().StringVar(&f.length, "for", "", "how long, as 90m or 2d (default until resumed)")
	c.Flags().StringVar(&f.reason, "reason", "", "why, shown to whoever asks"+reasonHelp)
	c.Flags().BoolVar(&f.json, "json", false, "print an object: job, paused, pause")
	return c
}

func (a *app) pause(ctx context.Context, args []string, f pauseFlags) error {
	var length time.Duration
	if f.length != "" {
		var err error
		if length, err = config.ParseDuration(f.length); err != nil {
			return usage("--for: %s", err)
		}
		if length <= 0 {
			return usage("--for: %q is not above zero; without --for it lasts until resumed", f.length)
		}
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	by, err := s.by(f.reason)
	if err != nil {
		return err
	}
	t, err := s.target(args, f.all)
	if err != nil {
		return err
	}
	// Looked at before anything is changed: who replaces a pause without knowing should learn it.
	before, err := t.state(ctx, s)
	if err != nil {
		return err
	}
	h, err := change(ctx, s, func(ctx context.Context) (ledger.Pause, error) {
		return s.led.Pause(ctx, t.name(), length, by, t.expiry(s, time.Now()))
	})
	if err != nil {
		return err
	}
	if was := t.own(&before); was != nil {
		a.note("this replaces a pause of %s: %s", t, pausedText(was, stamp(was.Until)))
	}
	until := "'rota resume " + t.arg() + "'"
	if h.Ends() {
		until = stamp(h.Until)
	}
	return a.answer(f.json, t.answer(&h), "paused %s until %s", t, until)
}
