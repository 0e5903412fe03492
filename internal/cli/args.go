package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
)

// suggestWithin is how many letters may differ between a name and what was likely meant.
const suggestWithin = 2

// usage makes an error of wrong arguments.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, text: fmt.Sprintf(format, args...)}
}

// unknownCommand refuses the arguments of the root command, which takes none: whatever stands
// there was meant as a command.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := didYouMean(c.SuggestionsFor(args[0]))
	if hint == "" {
		hint = "see '" + c.CommandPath() + " -h'"
	}
	return &exitError{code: exitUsage, text: fmt.Sprintf("unknown command %q", args[0]), hint: hint}
}

// takes checks the number of arguments. Names are those of the help; one in brackets may be
// left out.
func takes(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		hint := "see '" + c.CommandPath() + " -h'"
		if len(args) > len(names) {
			return &exitError{code: exitUsage, text: fmt.Sprintf("%s: argument %q is one too many", c.Name(), args[len(names)]), hint: hint}
		}
		if len(args) < len(names) && !strings.HasPrefix(names[len(args)], "[") {
			return &exitError{code: exitUsage, text: fmt.Sprintf("%s: argument %s is missing", c.Name(), names[len(args)]), hint: hint}
		}
		return nil
	}
}

// asUsage gives the errors of a check of arguments their exit code, whoever wrote the check.
func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		err := check(c, args)
		if _, ok := errors.AsType[*exitError](err); err == nil || ok {
			return err
		}
		return &exitError{code: exitUsage, text: err.Error(), hint: "see '" + c.CommandPath() + " -h'"}
	}
}

// atLeastOne checks the value of -n.
func atLeastOne(n int) error {
	if n < 1 {
		return usage("-n: %d is below 1", n)
	}
	return nil
}

// direction is how a duration counts where a time is asked for.
type direction bool

const (
	ago   direction = false
	ahead direction = true
)

// parseTime reads a time as the flags take it: RFC 3339, or a duration, which counts from now.
func parseTime(flag, s string, now time.Time, towards direction) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	d, err := config.ParseDuration(s)
	switch {
	case err == nil && towards == ago:
		return now.Add(-d).UTC(), nil
	case err == nil:
		return now.Add(d).UTC(), nil
	case strings.ContainsAny(s, "T:"):
		return time.Time{}, usage("--%s: %q is not a time; write it like %q", flag, s, "2026-11-29T02:00:00Z")
	}
	return time.Time{}, usage("--%s: %s, or a time like %q", flag, err, "2026-11-29T02:00:00Z")
}

// findJob returns a job of the table.
func findJob(c *config.Config, name string) (*config.Job, error) {
	names := make([]string, len(c.Jobs))
	for i := range c.Jobs {
		if c.Jobs[i].Name == name {
			return &c.Jobs[i], nil
		}
		names[i] = c.Jobs[i].Name
	}
	return nil, &exitError{
		code: exitUsage, text: fmt.Sprintf("there is no job %q in %s", name, c.Path),
		hint: didYouMean(nearest(name, names)),
	}
}

// nearest lists the names that were most likely meant, by the measure by which commands are
// suggested.
func nearest(name string, names []string) []string {
	known := &cobra.Command{SuggestionsMinimumDistance: suggestWithin}
	for _, n := range names {
		known.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	return known.SuggestionsFor(name)
}

// didYouMean is the hint that lists names, "" if there are none.
func didYouMean(names []string) string {
	const most = 3
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, min(most, len(names)))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	return "did you mean " + strings.Join(quoted, " or ") + "?"
}
