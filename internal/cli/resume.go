package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"rota/scheduler/ledger"
)

func (a *app) resumeCmd() *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "resume JOB|--all",
		Short: "End a pause",
		Long: `End the pause of a job, or with --all that of the fleet. A job that is paused by itself stays
paused when the fleet's pause ends, and the other way round; that is said. Nothing is caught up.
JOB may have left the table since it was paused.`,
		Example: `  rota resume nightly-report
  rota resume --all`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.resume(c.Context(), args, all, asJSON) },
	}
	c.Flags().BoolVar(&all, "all", false, "the pause of the whole fleet")
	c.Flags().BoolVar(&asJSON, "json", false, "print an object for each: job, paused, pause")
	return c
}

func (a *app) resume(ctx context.Context, args []string, all, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	targets, err := s.targets(ctx, args, all)
	if err != nil && !all {
		if t := s.pausedTarget(ctx, args); !t.all() {
			targets, err = []target{t}, nil
		}
	}
	if err != nil {
		return err
	}
	by, err := s.by("")
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := a.resumeOne(ctx, s, t, by, asJSON); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) resumeOne(ctx context.Context, s *session, t target, by ledger.By, asJSON bool) error {
	ended, err := change(ctx, s, func(ctx context.Context) (bool, error) { return s.led.Resume(ctx, t.name(), by) })
	if err != nil {
		return err
	}
	// Two pauses look like one to whoever waits for the job: what is left is said, not only what
	// has ended.
	left, err := s.stillPaused(ctx, t)
	if err != nil {
		return err
	}
	a.noteStillPaused(t, left)
	var still *ledger.Pause
	if !t.all() && len(left) > 0 {
		still = left[0].FleetPause
	}
	switch {
	case ended:
		return a.answer(asJSON, t.answer(still), "resumed %s", t)
	case t.all():
		return a.answer(asJSON, t.answer(still), "the fleet was not paused")
	}
	return a.answer(asJSON, t.answer(still), "%s was not paused by itself", t)
}

// pausedTarget is a job that is paused and has left the table: who renamed or removed it while it
// was paused can end that all the same. The zero target if there is none.
func (s *session) pausedTarget(ctx context.Context, args []string) target {
	if len(args) != 1 {
		return target{}
	}
	steering, err := ask(ctx, s, s.led.Steering)
	if _, ok := steering.Paused[args[0]]; err != nil || !ok || args[0] == ledger.AllJobs {
		return target{}
	}
	return target{gone: args[0]}
}

// stillPaused lists what the resumed pause left behind: of a job the fleet's, of the fleet those
// of jobs.
func (s *session) stillPaused(ctx context.Context, t target) ([]ledger.JobState, error) {
	names := []string{t.name()}
	if t.all() {
		refs, err := s.spread(ctx, s.table())
		if err != nil {
			return nil, err
		}
		names = keys(refs)
	}
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) { return s.led.State(ctx, names) })
	if err != nil {
		return nil, err
	}
	var left []ledger.JobState
	for _, state := range states {
		if t.all() && state.Pause != nil || !t.all() && state.FleetPause != nil {
			left = append(left, state)
		}
	}
	return left, nil
}

func (a *app) noteStillPaused(t target, left []ledger.JobState) {
	switch {
	case len(left) == 0:
	case !t.all():
		h := left[0].FleetPause
		a.note("%s stays paused: the fleet is %s", t, pausedText(h, stamp(h.Until)))
		a.hint("'rota resume --all' ends that")
	default:
		names := make([]string, len(left))
		for i := range left {
			names[i] = left[i].Job
		}
		a.note("still paused by itself: %s", strings.Join(names, ", "))
	}
}
