// Package cli is the command line: one file a command.
//
// Standard output is a command's answer and nothing else; errors, hints and the daemon's log
// go to standard error. Commands return errors; [Main] prints them, prefixed "rota:", and
// turns them into the exit codes that scripts rely on.
//
// The commands that ask about the fleet read the ledger and write nothing. Those that steer it
// (trigger, pause, resume, drain, cancel, reset) write what is wanted, by whom and why, and leave
// the rest to the daemons; all but trigger may be said twice. Each call to Redis ends by
// redis.op_timeout of the config, and what it brought from there is shown without the characters
// that would move a terminal's cursor: all of it but what a run printed, which is handed on as it is
// unless standard output is a terminal.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/jobs"
	"rota/locking"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2  // wrong usage, invalid config
	exitStale       = 3  // a fencing token was refused
	exitUnreachable = 69 // Redis cannot be reached, or not be used now (EX_UNAVAILABLE of sysexits.h)
	exitHeld        = 75 // the lock is held by another (EX_TEMPFAIL)
	exitLost        = 79 // the lease was lost
)

// exitError is an error with an exit code of its own, and with a hint, if there is one, on
// what to do. An empty text prints nothing: the answer was given already.
type exitError struct {
	code int
	text string
	hint string
}

func (e *exitError) Error() string { return e.text }

// app is what all commands share.
type app struct {
	configFlag string
	stdout     io.Writer
	stderr     io.Writer
	env        func(string) string
}

// Main runs the command line and returns the exit code. A process that a daemon started to be its
// warden is that and nothing else.
func Main() int {
	if jobs.IsWarden() {
		return jobs.ServeWarden()
	}
	a := &app{stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv}
	return a.report(a.root().ExecuteContext(context.Background()))
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "rota",
		Short: "Cron for a fleet: every tick runs on one host, under a lease",
		Long: `Cron for a fleet: every tick runs on one host, under a lease.

Identical daemons run on many hosts with the same table of jobs. For each tick they race for
one lease in Redis; one host wins, runs the job, and hands it a fencing token.

Exit codes: 0 done; 1 failed, also when Redis refuses the login or a command; 2 wrong usage or
invalid config; 3 stale fencing token; 69 Redis unreachable, or not ready: it loads its data, is
read only, has no memory left; 75 the lock is held by another; 79 the lease is lost. Answers go to
standard output, everything else to standard error. NO_COLOR is honoured.`,
		Example: `  rota demo
  rota check -c rota.toml && rota run -c rota.toml
  rota status --watch`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: suggestWithin,
		Args:                       unknownCommand,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.PersistentFlags().StringVarP(&a.configFlag, "config", "c", "", "the config `FILE` (default $ROTA_CONFIG, else "+config.DefaultPath+")")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &exitError{code: exitUsage, text: err.Error(), hint: "see '" + c.CommandPath() + " -h'"}
	})
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(a.helpCmd())
	root.AddCommand(a.runCmd(), a.checkCmd(), a.nextCmd(), a.previewCmd(), a.statusCmd(), a.historyCmd(), a.outputCmd(),
		a.triggerCmd(), a.pauseCmd(), a.resumeCmd(), a.cancelCmd(), a.drainCmd(), a.resetCmd(), a.lockCmd(), a.locksCmd(), a.unlockCmd(), a.fenceCmd(), a.demoCmd(), a.drillCmd(), a.drillWorkerCmd(), a.versionCmd())
	for _, c := range root.Commands() {
		c.Args = asUsage(c.Args)
	}
	return root
}

// helpCmd is "rota help status", for who does not think of -h.
func (a *app) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Help about a command",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			about, _, err := c.Root().Find(args)
			if err != nil || about == c.Root() && len(args) > 0 {
				return unknownCommand(c.Root(), args)
			}
			return about.Help()
		},
	}
}

// loadConfig reads the config that the flags and the environment name, for a command that runs nothing of
// its table.
func (a *app) loadConfig() (*config.Config, error) { return a.load(config.LoadToLook) }

func (a *app) load(how func(path string) (*config.Config, error)) (*config.Config, error) {
	c, err := how(config.Find(a.configFlag))
	if err != nil {
		return nil, a.notLoaded(err)
	}
	return c, nil
}

// notLoaded gives the error of a config that cannot be used its exit code.
func (a *app) notLoaded(err error) error {
	if errors.Is(err, os.ErrNotExist) && a.configFlag == "" {
		return &exitError{code: exitUsage, text: err.Error(), hint: "name a config with -c FILE or $ROTA_CONFIG; config.example.toml is one to begin with"}
	}
	return &exitError{code: exitUsage, text: err.Error()}
}

// report prints an error as people read it and returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	code, hint := exitFailed, ""
	if e, ok := errors.AsType[*exitError](err); ok {
		code, hint = e.code, e.hint
	} else if errors.Is(err, locking.ErrUnavailable) {
		code = exitUnreachable
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(a.stderr, "rota: %s\n", strings.TrimRight(line, "\n"))
	}
	if hint != "" {
		a.hint("%s", hint)
	}
	return code
}

// hint says on standard error what can be done.
func (a *app) hint(format string, args ...any) {
	fmt.Fprintf(a.stderr, "rota: hint: "+format+"\n", args...)
}

// note says on standard error what is no part of the answer.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "rota: "+format+"\n", args...)
}
