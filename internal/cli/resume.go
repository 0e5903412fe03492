package cli

import (
	"context"
	"slices"
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
paused when the fleet's pause ends, and the other way round; that is said. So it is between a job that
runs on every host, JOB, and what it is on one of them, JOB@HOST. Nothing is caught up. JOB may have
left the table since it was paused.`,
		Example: `  rota resume nightly-report
  rota resume --all`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.resume(c.Context(), args, all, asJSON) },
	}
	c.Flags().BoolVar(&all, "all", false, "the pause of the whole fleet")
	c.Flags().BoolVar(&asJSON, "json", false, "print an object: job, paused, pause")
	return c
}

func (a *app) resume(ctx context.Context, args []string, all, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.target(args, all)
	if err != nil && !all {
		if gone := s.pausedTarget(ctx, args); !gone.all() {
			t, err = gone, nil
		}
	}
	if err != nil {
		return err
	}
	by, err := s.by("")
	if err != nil {
		return err
	}
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
	still := a.noteStillPaused(t, left)
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
	if err != nil || args[0] == ledger.AllJobs {
		return target{}
	}
	for _, name := range []string{args[0], ledger.EveryHost(args[0])} {
		if _, ok := steering.Paused[name]; ok {
			return target{gone: name}
		}
	}
	return target{}
}

// stillPaused reads what the end of a pause may have left behind: the target, unless that is the fleet,
// and below it all that is paused by itself.
func (s *session) stillPaused(ctx context.Context, t target) (left []ledger.JobState, err error) {
	var names []string
	switch {
	case t.all():
		refs, err := s.spread(ctx, s.table())
		if err != nil {
			return nil, err
		}
		for _, r := range append(s.table(), refs...) {
			if name := r.pauseKey(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	case t.every() && t.job.Job != nil:
		refs, err := s.spread(ctx, []ref{t.job})
		if err != nil {
			return nil, err
		}
		names = append([]string{t.name()}, keys(refs)...)
	default:
		names = []string{t.name()}
	}
	return ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) { return s.led.State(ctx, names) })
}

// noteStillPaused says which pauses hold the target, or part of it, all the same. It returns the one that
// holds all of it and ends last; nil: there is none.
func (a *app) noteStillPaused(t target, states []ledger.JobState) (still *ledger.Pause) {
	var parts []string
	for i := range states {
		s := &states[i]
		if s.Pause != nil && s.Job != t.name() {
			parts = append(parts, target{gone: s.Job}.String())
		}
		if s.Job != t.name() {
			continue
		}
		wider := *s
		wider.Pause = nil
		still = wider.PausedBy()
		if h := s.EveryPause; h != nil {
			a.note("%s stays paused: on every host it is %s", t, pausedText(h, stamp(h.Until)))
			a.hint("'rota resume %s' ends that", target{gone: ledger.EveryHostOf(s.Job)}.arg())
		}
		if h := s.FleetPause; h != nil {
			a.note("%s stays paused: the fleet is %s", t, pausedText(h, stamp(h.Until)))
			a.hint("'rota resume --all' ends that")
		}
	}
	if len(parts) > 0 {
		a.note("still paused by itself: %s", strings.Join(parts, ", "))
	}
	return still
}
