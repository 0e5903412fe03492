package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) resumeCmd() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "resume JOB|--all",
		Short: "End a pause",
		Long: `End the pause of a job, or with --all that of the fleet. Jobs that are paused by themselves
stay paused when the fleet's pause ends. Nothing is caught up.`,
		Example: "  rota resume nightly-report",
		Args:    takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			defer s.close()
			job, what, err := s.oneOrAll(args, all)
			if err != nil {
				return err
			}
			ended, err := ask(c.Context(), s, func(ctx context.Context) (bool, error) {
				return s.led.Resume(ctx, job, s.by(""))
			})
			if err != nil {
				return err
			}
			if !ended {
				_, err = fmt.Fprintf(a.stdout, "%s was not paused\n", what)
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "resumed %s\n", what)
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "the pause of the whole fleet")
	return c
}
