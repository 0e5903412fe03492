package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rota/internal/daemon"
)

func (a *app) runCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the daemon of this host",
		Long: `Run the daemon: race for every tick of the table, and run what is won.

It stays in the foreground and logs to standard error. The first SIGTERM or SIGINT drains:
nothing more is claimed, runs finish within shutdown.drain. The second one kills them. It
waits for Redis as long as it takes, at the start and later.`,
		Example: "  rota run -c /etc/rota/rota.toml",
		Args:    takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			// Channels of their own: signal.Notify drops what finds its channel full, and a storm
			// of reloads must not swallow the signal that ends the daemon.
			stop, reload := make(chan os.Signal, 2), make(chan os.Signal, 1)
			signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
			signal.Notify(reload, syscall.SIGHUP)
			// A log whose reader has gone must not end the daemon. Notified, not ignored: runs
			// would inherit that.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			defer signal.Reset(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
			return daemon.Run(c.Context(), daemon.Options{
				Config: cfg, Version: Version(), Logger: daemon.NewLogger(cfg.Log, os.Stderr), Stop: stop, Reload: reload,
			})
		},
	}
}
