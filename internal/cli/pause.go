package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

func (a *app) pauseCmd() *cobra.Command {
	var all bool
	var length, reason string
	c := &cobra.Command{
		Use:   "pause JOB|--all",
		Short: "Hold a job's ticks back, on every host",
		Long: `Hold the ticks of a job back, or with --all those of the whole fleet, until it is resumed
or the time of --for is over. It survives restarts of every daemon. Runs that are going on are
not touched. The ticks inside a pause are recorded as skipped, and are not caught up.`,
		Example: `  rota pause nightly-report --for 2h --reason "database upgrade"
  rota pause --all`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.pause(c.Context(), args, all, length, reason)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every job of the fleet")
	c.Flags().StringVar(&length, "for", "", "how long, as in 90m or 2d (default: until resumed)")
	c.Flags().StringVar(&reason, "reason", "", "why; shown to whoever asks")
	return c
}

func (a *app) pause(ctx context.Context, args []string, all bool, length, reason string) error {
	d := time.Duration(0)
	if length != "" {
		var err error
		if d, err = config.ParseDuration(length); err != nil || d <= 0 {
			return usage("--for: %q is not a duration above zero, such as 90m or 2d", length)
		}
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	job, what, err := s.oneOrAll(args, all)
	if err != nil {
		return err
	}
	until, err := ask(ctx, s, func(ctx context.Context) (time.Time, error) {
		return s.led.Pause(ctx, job, d, s.by(reason), s.cfg.History.MaxAge)
	})
	if err != nil {
		return err
	}
	end := "until 'rota resume " + resumeArg(job) + "'"
	if !until.IsZero() {
		end = "until " + until.Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(a.stdout, "paused %s %s\n", what, end)
	return err
}

// oneOrAll makes the ledger's name of what a command is about, and a person's.
func (s *session) oneOrAll(args []string, all bool) (job, what string, err error) {
	switch {
	case all && len(args) > 0:
		return "", "", usage("name a job or say --all, not both")
	case all:
		return ledger.AllJobs, "every job", nil
	case len(args) == 0:
		return "", "", usage("name a job, or say --all")
	}
	j, err := findJob(s.cfg, args[0])
	if err != nil {
		return "", "", err
	}
	return j.Name, j.Name, nil
}

func resumeArg(job string) string {
	if job == ledger.AllJobs {
		return "--all"
	}
	return job
}

// by says who steers: the person at this terminal.
func (s *session) by(reason string) ledger.By {
	return ledger.By{Who: asker(s.cfg.Host.Name), Why: reason}
}
