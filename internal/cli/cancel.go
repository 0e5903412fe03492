package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"rota/scheduler/ledger"
)

func (a *app) cancelCmd() *cobra.Command {
	var reason string
	var asJSON bool
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Stop a run, wherever it is",
		Long: `Ask for the end of a run on whatever host it is: its processes get SIGTERM and, after the
job's kill_grace, SIGKILL, and it is recorded as cancelled, by whom and why. Its host hears of it
within a second, or with the run's next renewal. The command does not wait for the end. A run
that has ended, or that nobody knows, is an error, 1.`,
		Example: `  rota cancel 01M8MDRH9H8M6HBC91C7SPC12Z --reason "wrong data"
  rota cancel $(rota status --json | jq -r '.jobs[] | select(.name == "nightly-report") | .run')`,
		Args: takes("RUN"),
		RunE: func(c *cobra.Command, args []string) error { return a.cancel(c.Context(), args[0], reason, asJSON) },
	}
	c.Flags().StringVar(&reason, "reason", "", "why, recorded with the run"+reasonHelp)
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: run, job, host, who, why")
	return c
}

func (a *app) cancel(ctx context.Context, id, reason string, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	by, err := s.by(reason)
	if err != nil {
		return err
	}
	_, err = change(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.led.Cancel(ctx, id, by) })
	switch {
	case errors.Is(err, ledger.ErrNoRun):
		return s.noRunToCancel(ctx, id)
	case err != nil && !errors.Is(err, ledger.ErrEnded):
		return err
	}
	// Whose run it is makes the answer a better one, and no other.
	e, unknown := ask(ctx, s, func(ctx context.Context) (ledger.Entry, error) { return s.led.Run(ctx, id) })
	switch {
	case err != nil && (unknown != nil || e.Outcome == ledger.OutcomeRunning):
		return &exitError{code: exitFailed, text: fmt.Sprintf("run %s has ended", plain(id))}
	case err != nil:
		return &exitError{code: exitFailed, text: fmt.Sprintf("run %s of %s has ended: %s", plain(id), plain(e.Job), plain(e.Outcome))}
	}
	object := struct {
		Run  string `json:"run"`
		Job  string `json:"job"`
		Host string `json:"host"`
		ledger.By
	}{id, e.Job, e.Host, by}
	if unknown != nil {
		return a.answer(asJSON, object, "asked for the end of run %s", plain(id))
	}
	return a.answer(asJSON, object, "asked %s for the end of run %s of %s", plain(e.Host), plain(id), plain(e.Job))
}

// noRunToCancel makes the error of a run that nobody knows. Where a job was named, what is meant
// may be its run.
func (s *session) noRunToCancel(ctx context.Context, id string) error {
	e := &exitError{
		code: exitFailed, text: fmt.Sprintf("there is no run %q in the ledger, or not any more", id),
		hint: "'rota history --outcome running' lists the runs that are going on",
	}
	if _, err := findRef(s.cfg, id); err != nil {
		return e
	}
	e.hint = fmt.Sprintf("%q is a job, and it is not running", id)
	states, err := ask(ctx, s, func(ctx context.Context) ([]ledger.JobState, error) { return s.led.State(ctx, []string{id}) })
	if err == nil && states[0].Running {
		e.hint = fmt.Sprintf("%q is a job; its run is %s", id, plain(states[0].HolderRun))
	}
	return e
}
