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
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Stop a run, wherever it is",
		Long: `Ask for the end of a run on whatever host it is: its processes get SIGTERM and, after the
job's kill_grace, SIGKILL, and it is recorded as cancelled. Its host hears of it within a second,
or with the run's next renewal. The command does not wait for the end.`,
		Example: "  rota cancel 01M8MDRH9H8M6HBC91C7SPC12Z",
		Args:    takes("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			defer s.close()
			_, err = ask(c.Context(), s, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, s.led.Cancel(ctx, args[0], s.by(reason))
			})
			switch {
			case errors.Is(err, ledger.ErrNoRun):
				return &exitError{code: exitFailed, text: fmt.Sprintf("no run %q", args[0]), hint: "'rota status' shows the runs that are going on"}
			case errors.Is(err, ledger.ErrEnded):
				return &exitError{code: exitFailed, text: fmt.Sprintf("run %s has ended", args[0])}
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "asked for the end of run %s\n", args[0])
			return err
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why; recorded with the run")
	return c
}
