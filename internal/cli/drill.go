package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"rota/internal/connect"
	"rota/internal/drill"
)

// drillWorker is the hidden command that a drill runs its workers by.
const drillWorker = "drill-worker"

func (a *app) drillCmd() *cobra.Command {
	var (
		opt    drill.Options
		asJSON bool
		about  strings.Builder
		names  []string
	)
	for _, s := range drill.Scenarios {
		names = append(names, s.Name)
		const indent = 10
		fmt.Fprintf(&about, "  %-7s %s\n", s.Name, strings.Join(wrap(s.About, proseWidth-indent), "\n"+strings.Repeat(" ", indent)))
	}
	c := &cobra.Command{
		Use:   "drill SCENARIO",
		Short: "Prove the lock on your Redis, with real processes",
		Long: `Prove the lock on the Redis of the config, with real processes that compete for it.

` + about.String() + `
Each worker takes the lock, is inside for a moment, writes to a guarded value with its fencing
token, and gives the lock back. A file that only one process can have locked tells whether two
were inside at once; it knows nothing of the lock. The drill fails if two were, if a token came
twice, if anything was refused that should not have been, or if a fault that it made itself did
not show. Its lease is short: 300ms, renewed every 75ms.

It touches no key but its own, which it deletes. Workers give up on a Redis that does not answer
for 5s. Exit codes: 0 PASS; 1 FAIL; 69 Redis unreachable, or it became so: then FAIL is said, too.`,
		Example: `  rota drill mutex --workers 32
  rota drill expiry --json`,
		Args:      takes("SCENARIO"),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			var ok bool
			if opt.Scenario, ok = drill.Find(args[0]); !ok {
				return usage("no scenario %q, there are %s", args[0], strings.Join(names, ", "))
			}
			switch {
			case opt.Workers < opt.Scenario.LeastWorkers() || opt.Workers > drill.MostWorkers:
				return usage("--workers is %d, want %d to %d", opt.Workers, opt.Scenario.LeastWorkers(), drill.MostWorkers)
			case opt.Iterations < 1 || opt.Iterations > drill.MostIterations:
				return usage("--iterations is %d, want 1 to %d", opt.Iterations, drill.MostIterations)
			}
			return a.drill(c.Context(), opt, asJSON)
		},
	}
	c.Flags().IntVar(&opt.Workers, "workers", 8, "`N` processes")
	c.Flags().IntVar(&opt.Iterations, "iterations", 80, "`N` times inside for each of them")
	c.Flags().BoolVar(&asJSON, "json", false, "print the counts as JSON")
	return c
}

func (a *app) drill(ctx context.Context, opt drill.Options, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if opt.Exe, err = os.Executable(); err != nil {
		return fmt.Errorf("drill: %w", err)
	}
	opt.Args = []string{drillWorker, "-c", s.cfg.Path}
	opt.Namespace, opt.Client = s.cfg.Namespace, s.client
	bar := a.progress("drill " + opt.Scenario.Name)
	opt.Progress = bar.show
	if !asJSON {
		fmt.Fprintf(a.stdout, "%s\n%d workers × %d iterations, ttl 300ms, renewal every 75ms\nredis at %s\n",
			strings.Join(wrap(opt.Scenario.Name+": "+opt.Scenario.About, proseWidth), "\n"), opt.Workers, opt.Iterations, s.cfg.Redis.Where())
	}
	r, err := drill.Run(ctx, opt)
	bar.end()
	if err != nil {
		return s.explain(err)
	}
	if asJSON {
		err = json.NewEncoder(a.stdout).Encode(r)
	} else {
		err = writeDrill(a.stdout, opt.Scenario, r)
	}
	switch { // of what was said already
	case err == nil && r.Away > 0:
		return &exitError{code: exitUnreachable}
	case err == nil && r.Result != drill.Pass:
		return &exitError{code: exitFailed}
	}
	return err
}

func writeDrill(w io.Writer, s drill.Scenario, r *drill.Report) error {
	expected := ""
	if s.LetsTwoIn() {
		expected = "; expected in this drill"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "entered %d, completed %d of %d, in %s\n", r.Entered, r.Completed, r.Expected, r.Elapsed.Round(10*time.Millisecond))
	fmt.Fprintf(&b, "violations %d (entered while another was inside%s)\nstale %d (late writes that were refused%s)\nfailures %d\n",
		r.Violations, expected, r.Stale, expected, r.Failures)
	if r.Lost > 0 {
		fmt.Fprintf(&b, "%d leases were lost inside: their workers went out at once and came back\n", r.Lost)
	}
	fmt.Fprintln(&b, r.Result)
	for _, f := range r.Faults {
		fmt.Fprintln(&b, "  "+strings.Join(wrap(plain(f), proseWidth-len("    ")), "\n    "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// drillWorkerCmd is a process of a drill. Its orders come on standard input.
func (a *app) drillWorkerCmd() *cobra.Command {
	return &cobra.Command{
		Use:    drillWorker,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			redis.SetLogger(silent{})
			client, err := connect.Open(cfg)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			return drill.Work(c.Context(), client, os.Stdin, a.stdout)
		},
	}
}
