package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) statusCmd() *cobra.Command {
	var watch, asJSON bool
	c := &cobra.Command{
		Use:   "status [JOB]",
		Short: "Show jobs and hosts as they are now",
		Long: `Show the jobs of the table, or one of them in full, and the hosts of the fleet.

STATE is ok only for a job that will run and whose last tick succeeded. It is disabled, paused,
running, future (the newest tick decided lies ahead of Redis' clock, so none can be claimed; see
'rota reset'), no host (no host is there that may run it and claims), waiting (a tick waits for the
lock), new (nothing is recorded yet), or else the last outcome: failed, timed_out, lost, cancelled,
interrupted, skipped, missed. NEXT is the next tick that can run, and with a splay when it starts: of
a paused job the first one after the pause, and - if that has no end. HOLDER is the host that holds
the job's lease, for a rerun, a misfire or by hand, and how many runs go on besides, where they may
overlap; TOKEN and LAG, how late it was won, are of the newest run. A job that runs on every host is
JOB@HOST on each of those that are there. A host is drained when 'rota drain' told it to claim
nothing, draining when it is about to stop, full when it has as many runs as host.max_runs. TABLE is
a hash of its table, CLOCK how far its clock is ahead of Redis'. Below the tables stands what there
is to know besides: who paused and who drained, until when and why. Times are by Redis' clock.

With --watch it is drawn again every second until interrupted; where standard output is no
terminal, printed again, with --json an object a line.`,
		Example: `  rota status --watch
  rota status --json | jq -r '.jobs[] | select(.state != "ok") | .name'`,
		Args: takes("[JOB]"),
		RunE: func(c *cobra.Command, args []string) error { return a.status(c.Context(), args, watch, asJSON) },
	}
	c.Flags().BoolVar(&watch, "watch", false, "again every second")
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: pause, jobs, hosts")
	return c
}

func (a *app) status(ctx context.Context, args []string, watch, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	only := ""
	if len(args) > 0 {
		if _, err := findRef(s.cfg, args[0]); err != nil {
			return err
		}
		only = args[0]
	}
	// A whole answer is written at once: half a table is none.
	show := func(v *view, w io.Writer) error {
		var text bytes.Buffer
		switch {
		case asJSON:
			if err := json.NewEncoder(&text).Encode(v); err != nil {
				return err
			}
		case only != "" && len(v.Jobs) == 1:
			v.writeJob(&text, s)
		default:
			v.writeAll(&text, s, a.columns(), a.colours())
		}
		_, err := w.Write(text.Bytes())
		return err
	}
	if watch {
		return a.watch(ctx, asJSON, func(ctx context.Context) (*view, error) { return s.view(ctx, only) }, show)
	}
	v, err := s.view(ctx, only)
	if err != nil {
		return err
	}
	return show(v, a.stdout)
}
