package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rota/scheduler/ledger"
)

func (a *app) outputCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "output RUN",
		Short: "Print what a run printed",
		Long: `Print what a run printed, as it is kept: the beginning and the end of it, up to history.output
of the config, with a line between them that says how much was left out. It is there once the
run has ended. Standard output and standard error of a run are one stream. On a terminal what
would do more than print is left out; a pipe gets it as it is.`,
		Example: `  rota output 01KB6XFYG8R3M0Q2V5T7W9XZAB
  rota output $(rota history nightly-report -n 1 --json | jq -r .run)`,
		Args: takes("RUN"),
		RunE: func(c *cobra.Command, args []string) error { return a.output(c.Context(), args[0]) },
	}
}

func (a *app) output(ctx context.Context, id string) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	text, err := ask(ctx, s, func(ctx context.Context) ([]byte, error) { return s.led.Output(ctx, id) })
	switch {
	case errors.Is(err, ledger.ErrNoRun):
		return a.noRun(s, id)
	case err != nil:
		return err
	case text != nil:
		if f, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			text = forTerminal(text)
		}
		_, err = a.stdout.Write(text)
		return err
	}
	// Nothing is kept: because it printed nothing, or for a reason that should be said.
	e, err := ask(ctx, s, func(ctx context.Context) (ledger.Entry, error) { return s.led.Run(ctx, id) })
	switch {
	case errors.Is(err, ledger.ErrNoRun):
		return a.noRun(s, id)
	case err != nil:
		return err
	case e.Outcome == ledger.OutcomeRunning:
		a.note("run %s is still running on %s: its output is kept when it ends", id, plain(e.Host))
	case e.Outcome == ledger.OutcomeLost:
		a.note("run %s was lost, and so may its output be: %s", id, plain(e.Reason))
	}
	return nil
}

// forTerminal is what a job printed, without what would move the cursor, change colours, or turn the
// direction of writing: whoever runs a job is not who sits at this terminal. Line ends and tabs stay.
func forTerminal(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func (a *app) noRun(s *session, id string) error {
	hint := "'rota history' lists the runs that are kept"
	if _, err := findRef(s.cfg, id); err == nil {
		hint = fmt.Sprintf("%q is a job; 'rota history %s' lists its runs", id, id)
	}
	return &exitError{code: exitFailed, text: fmt.Sprintf("there is no run %q in the ledger, or not any more", id), hint: hint}
}
