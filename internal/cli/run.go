package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/internal/daemon"
)

func (a *app) runCmd() *cobra.Command {
	var dry dryRun
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon of this host",
		Long: `Run the daemon: race for every tick of the table, and run what is won.

It stays in the foreground and logs to standard error. The first SIGTERM or SIGINT drains:
nothing more is claimed, runs finish within shutdown.drain. The second one kills them. It
waits for Redis as long as it takes, at the start and later.

With --dry-run it runs nothing: it races in a shadow of the namespace, with all others that
dry-run the same one at the time, and shows who would win each tick, by how much, and which locks
contend. A lease that it wins is held as long as the job's past runs took (the median in the
ledger; else --assume; else not at all). The fleet's own keys are only read. It ends with a report,
after --for or with Ctrl-C.`,
		Example: `  rota run -c /etc/rota/rota.toml
  rota run --dry-run --hosts 5 --for 10m --assume 30s`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			opt, err := dry.options(c.Flags())
			if err != nil {
				return err
			}
			cfg, err := a.load(config.Load)
			if err != nil {
				return err
			}
			if dry.on {
				opt.Config = cfg
				return a.showDryRun(c.Context(), opt, dry.asJSON)
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
	dry.flags(c.Flags())
	return c
}
