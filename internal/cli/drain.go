package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) drainCmd() *cobra.Command {
	var undo bool
	var reason string
	c := &cobra.Command{
		Use:   "drain [HOST]",
		Short: "Have a host claim nothing more",
		Long: `Tell a host, this one if none is named, to claim nothing more. Its runs go on, its daemon
stays, and the other hosts do its work. It holds over restarts, until --undo.`,
		Example: `  rota drain web-2 --reason "kernel upgrade"
  rota drain web-2 --undo`,
		Args: takes("[HOST]"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			defer s.close()
			host := s.cfg.Host.Name
			if len(args) > 0 {
				host = args[0]
			}
			done, err := ask(c.Context(), s, func(ctx context.Context) (bool, error) {
				return s.led.DrainHost(ctx, host, undo, s.by(reason))
			})
			switch {
			case err != nil:
				return err
			case undo && !done:
				_, err = fmt.Fprintf(a.stdout, "%s was not drained\n", host)
			case undo:
				_, err = fmt.Fprintf(a.stdout, "%s claims again\n", host)
			default:
				_, err = fmt.Fprintf(a.stdout, "%s claims nothing more, until 'rota drain %s --undo'\n", host, host)
			}
			return err
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "let it claim again")
	c.Flags().StringVar(&reason, "reason", "", "why; shown to whoever asks")
	return c
}
