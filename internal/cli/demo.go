package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rota/internal/config"
	"rota/internal/demo"
)

func (a *app) demoCmd() *cobra.Command {
	opt := demo.Options{Args: []string{"run"}}
	var lasts string
	var asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show a fleet on this machine, with one host killed, and a verdict",
		Long: `Start an embedded Redis and some daemons, each a real process, on this machine. They race for
jobs of every second; one of them is killed with SIGKILL on the way, and another takes its
job over. Nothing needs to be installed, and nothing is left behind.

The verdict at the end is read from the ledger, and from a file that the jobs themselves wrote.
The exit code is 0 only if no tick ran twice, every tick is accounted for, the tokens rise, no
process outlived its host, and the other hosts drained. Ctrl-C ends it early, with a verdict on
what there was; the second one ends it at once.

With --json the verdict is one object on standard output, and the rest goes to standard error.`,
		Example: "  rota demo --for 1m --hosts 5",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			opt.For, err = config.ParseDuration(lasts)
			switch {
			case err != nil:
				return usage("--for: %v", err)
			case opt.For < demo.LeastFor || opt.For > demo.MostFor:
				return usage("--for is %s, want %s to %gh", lasts, demo.LeastFor, demo.MostFor.Hours())
			case opt.Hosts < demo.LeastHosts || opt.Hosts > demo.MostHosts:
				return usage("--hosts is %d, want %d to %d", opt.Hosts, demo.LeastHosts, demo.MostHosts)
			}
			if opt.Exe, err = os.Executable(); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return a.showDemo(c.Context(), opt, asJSON)
		},
	}
	c.Flags().StringVar(&lasts, "for", "20s", "how long the hosts race, a duration `D`")
	c.Flags().IntVar(&opt.Hosts, "hosts", 3, "`N` daemons")
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict as JSON")
	return c
}

// showDemo runs the demo and prints its verdict.
func (a *app) showDemo(ctx context.Context, opt demo.Options, asJSON bool) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// A reader that has seen enough (rota demo | head) would otherwise end this process by
	// SIGPIPE, and what it is to tidy up would stay. Now the write fails, which ends the demo.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	redis.SetLogger(silent{}) // its own lines would tear the view
	opt.Signals = signals

	opt.View = a.stdout
	if asJSON {
		opt.View = a.stderr
	}
	opt.Style = a.demoStyle(opt.View)
	v, err := demo.Run(ctx, opt)
	if err != nil {
		return err
	}
	if asJSON {
		err = json.NewEncoder(a.stdout).Encode(v)
	} else {
		_, err = fmt.Fprintln(a.stdout, strings.Join(v.Lines(opt.Style), "\n"))
	}
	if errors.Is(err, syscall.EPIPE) || err == nil && v.Result != demo.Passed {
		return &exitError{code: exitFailed} // nobody reads, or it was said already
	}
	return err
}

// demoStyle is how the view may look where it goes to.
func (a *app) demoStyle(w io.Writer) demo.Style {
	var s demo.Style
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Width, _, _ = term.GetSize(int(f.Fd()))
	// POSIX.1-2024, XBD 8.2: the first of these that is set names the character set.
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(a.env(name)); v != "" {
			s.Marks = strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
			break
		}
	}
	if a.env("NO_COLOR") == "" && a.env("TERM") != "dumb" {
		s.Color, s.Live = true, true
	}
	return s
}
