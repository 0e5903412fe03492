package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) resetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "reset JOB",
		Short: "Take back a cursor that lies in the future",
		Long: `Take a job's cursor, the newest tick decided, back to now, if it lies ahead of Redis' clock: as
after that clock ran ahead and was set right. Until then the job has no tick to claim, and the
daemons' logs say so.`,
		Example: "  rota reset nightly-report",
		Args:    takes("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			defer s.close()
			job, err := findJob(s.cfg, args[0])
			if err != nil {
				return err
			}
			ok := false
			was, err := ask(c.Context(), s, func(ctx context.Context) (was time.Time, err error) {
				was, ok, err = s.led.Reset(ctx, job.Name)
				return was, err
			})
			if err != nil {
				return err
			}
			if !ok {
				_, err = fmt.Fprintf(a.stdout, "%s needs no reset: its cursor does not lie in the future\n", job.Name)
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "took the cursor of %s back from %s to now\n", job.Name, was.Format(time.RFC3339))
			return err
		},
	}
}
