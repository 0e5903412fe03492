package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/jobs"
	"rota/scheduler"
)

func (a *app) checkCmd() *cobra.Command {
	var asJSON, askRedis bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the config",
		Long: `Check the config and every file that it includes.

A valid one is summed up, file by file; what is allowed and probably not meant goes to standard
error as warnings, and so do limits that this machine could not set, whatever the daemon was given.
Everything that is wrong with an invalid one is printed at once, a line each that an editor can
follow, file:line: key: problem, and the exit code is 2. The file system is not asked whether a program
exists; but the users, groups and env_files of the jobs that this host may run are looked for.

With --redis it then asks Redis, as the user that the daemon will be, for what would hurt later: rights,
eviction, persistence, replicas, clock, latency, and keys that somebody else wrote. A fault keeps Rota
from working or breaks one of its promises, and the exit code is 1; warnings and hints leave it 0. It is
69 when Redis cannot be reached.`,
		Example: `  rota check -c rota.toml && systemctl reload rota
  rota check --redis`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			path := config.Find(a.configFlag)
			if asJSON {
				return a.checkJSON(c.Context(), path, askRedis)
			}
			cfg, err := config.Load(path)
			if faults, ok := errors.AsType[*config.Faults](err); ok {
				return a.printFaults(faults)
			}
			if err != nil {
				return a.notLoaded(err)
			}
			for _, w := range cfg.Warnings {
				a.note("warning: %s", plain(w))
			}
			a.noteLacks(cfg)
			if err := a.sumUp(cfg); err != nil || !askRedis {
				return err
			}
			report, err := a.askRedis(c.Context(), cfg)
			if err != nil {
				return err
			}
			return a.printRedis(cfg, report)
		},
	}
	c.Flags().BoolVar(&askRedis, "redis", false, "ask Redis too, for what would hurt later")
	c.Flags().BoolVar(&asJSON, "json", false, "print one object: ok, faults, warnings and what was found")
	return c
}

// noteLacks warns of limits that no daemon on this machine can set. Which of them the daemon of this
// host can set it says itself, when it starts: a check runs in another cgroup than the daemon.
func (a *app) noteLacks(c *config.Config) {
	lacks := c.Lacks(jobs.Limits.Unsupported)
	for _, l := range lacks {
		a.note("warning: %s", lackText(l))
	}
	if len(lacks) > 0 {
		a.hint("limits take cgroup v2; docs/operations.md has what to set up")
	}
}

// lackText is a limit that does not hold, and for whom.
func lackText(l config.Lack) string {
	text := l.What + ", so " + l.Jobs[0]
	if more := len(l.Jobs) - 1; more > 0 {
		return text + " and " + count(more, "other job", "other jobs") + " run without it here"
	}
	return text + " runs without it here"
}

// printFaults prints what is wrong with a config: that is the answer of the check, and in the form
// of compilers' messages, so without a prefix.
func (a *app) printFaults(faults *config.Faults) error {
	if _, err := fmt.Fprintln(a.stdout, faults); err != nil {
		return err
	}
	return &exitError{code: exitUsage, text: "the config has " + count(len(faults.All), "fault", "faults")}
}

// sumUp prints what a valid config holds.
func (a *app) sumUp(c *config.Config) error {
	jobs, disabled, elsewhere := map[string]int{}, 0, 0
	for _, j := range c.Jobs {
		jobs[j.File]++
		if !j.Enabled {
			disabled++
		}
		if !scheduler.MayRun(j.Hosts, c.Host.Name, c.Host.Labels) {
			elsewhere++
		}
	}
	t := newTable(false, "")
	for _, f := range c.Files {
		t.row(f, count(jobs[f], "job", "jobs"))
	}
	if _, err := t.WriteTo(a.stdout); err != nil {
		return err
	}
	total := count(len(c.Jobs), "job", "jobs")
	var besides []string
	if disabled > 0 {
		besides = append(besides, fmt.Sprintf("%d disabled", disabled))
	}
	if elsewhere > 0 {
		besides = append(besides, fmt.Sprintf("%d not for this host", elsewhere))
	}
	if len(besides) > 0 {
		total += " (" + strings.Join(besides, ", ") + ")"
	}
	_, err := fmt.Fprintf(a.stdout, "ok: %s in %s; host %q of fleet %q at %s\n",
		total, count(len(c.Files), "file", "files"), c.Host.Name, c.Namespace, c.Redis.Where())
	return err
}

// checkedJSON is the answer of check --json.
type checkedJSON struct {
	OK       bool        `json:"ok"`
	Config   string      `json:"config"`
	Faults   []faultJSON `json:"faults"`
	Warnings []string    `json:"warnings"`
	Files    []string    `json:"files"`
	Jobs     []string    `json:"jobs"`
	Table    string      `json:"table,omitempty"` // its hash, as hosts report it
	Redis    *redisJSON  `json:"redis,omitempty"` // with --redis, of a valid config
}

type faultJSON struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Key     string `json:"key"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

func (a *app) checkJSON(ctx context.Context, path string, askRedis bool) error {
	out := checkedJSON{Config: path, Faults: []faultJSON{}, Warnings: []string{}, Files: []string{}, Jobs: []string{}}
	cfg, err := config.Load(path)
	faults, invalid := errors.AsType[*config.Faults](err)
	switch {
	case err == nil:
		out.OK, out.Table = true, cfg.TableHash()
		out.Warnings = append(out.Warnings, cfg.Warnings...)
		for _, l := range cfg.Lacks(jobs.Limits.Unsupported) {
			out.Warnings = append(out.Warnings, lackText(l))
		}
		out.Files = append(out.Files, cfg.Files...)
		for _, j := range cfg.Jobs {
			out.Jobs = append(out.Jobs, j.Name)
		}
	case invalid:
		for _, f := range faults.All {
			out.Faults = append(out.Faults, faultJSON(f))
		}
	default:
		problem := err.Error()
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			problem = "cannot be read: " + pe.Err.Error()
		}
		out.Faults = append(out.Faults, faultJSON{File: path, Problem: strings.TrimPrefix(problem, "config: ")})
	}
	code := exitUsage
	if out.OK && askRedis {
		out.Redis, code = a.redisJSON(ctx, cfg)
		out.OK = code == exitOK
	}
	if err := json.NewEncoder(a.stdout).Encode(out); err != nil {
		return err
	}
	if !out.OK {
		return &exitError{code: code} // the answer says why
	}
	return nil
}
