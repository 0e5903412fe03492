package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/internal/pastruns"
	"rota/internal/preview"
	"rota/internal/preview/picture"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// previewFlags are the flags of preview.
type previewFlags struct {
	hosts     int
	window    string
	from      string
	durations string
	assume    string
	redis     bool
	seed      uint64
	json      bool
	svg       string
}

// mostHosts bounds a fleet that is only thought of: every tick is ranked over all of them.
const mostHosts = 1000

func (a *app) previewCmd() *cobra.Command {
	var f previewFlags
	c := &cobra.Command{
		Use:   "preview",
		Short: "Replay the table offline: crowded minutes, contended locks, ticks that would be lost",
		Long: `Replay the cron table of the config over a fleet that is only thought of, in virtual time: who wins
which tick, which locks are found held, which ticks overlap, a start deadline or full hosts would
cost, what clock changes do, and what would help. It needs no Redis and runs nothing.

How long runs take decides most of it. Without anything else a run takes no time. --durations FILE
has a line for each job, "JOB DURATION [DURATION…]", or is the output of rota history --json; of
several, each run takes one at random. --redis reads the newest runs of each job and the hosts with
their labels from the fleet, and writes nothing. --assume D is for jobs of which nothing is known.

The same --seed gives the same report. Times T are RFC 3339 or a duration from now, as 36h.`,
		Example: `  rota preview --for 7d --hosts 8
  rota history --json -n 5000 > runs.jsonl && rota preview --durations runs.jsonl
  rota preview --redis --svg day.svg`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return a.preview(c.Context(), f, c.Flags().Changed("hosts")) },
	}
	c.Flags().IntVar(&f.hosts, "hosts", 5, "a fleet of `N` hosts")
	c.Flags().StringVar(&f.window, "for", "24h", "replay ticks of `D`")
	c.Flags().StringVar(&f.from, "from", "", "from `T` on (default now)")
	c.Flags().StringVar(&f.durations, "durations", "", "read how long runs take from `FILE`; - is standard input")
	c.Flags().StringVar(&f.assume, "assume", "", "a run of which nothing else is known takes `D`")
	c.Flags().BoolVar(&f.redis, "redis", false, "read how long runs took, and the hosts, from the fleet")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "what is random is drawn from `N`")
	c.Flags().BoolVar(&f.json, "json", false, "print one object: jobs, peaks, locks, warnings and more")
	c.Flags().StringVar(&f.svg, "svg", "", "draw hours by jobs into `FILE`")
	return c
}

func (a *app) preview(ctx context.Context, f previewFlags, hostsGiven bool) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	opt, assume, err := f.options(time.Now())
	if err != nil {
		return err
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return err
	}
	known := map[string][]time.Duration{}
	var live []ledger.Host
	if f.redis {
		if known, live, err = a.askPast(ctx, cfg); err != nil {
			return err
		}
	}
	if f.durations != "" {
		told, err := a.readDurations(cfg, f.durations)
		if err != nil {
			return err
		}
		maps.Copy(known, told) // what somebody wrote goes before what was measured
	}
	opt.Jobs = previewJobs(cfg, known, assume)
	opt.TTL, opt.RenewEvery = cfg.Lease.TTL, cfg.Lease.RenewEvery
	if hostsGiven || len(live) == 0 {
		opt.Hosts = a.thoughtHosts(cfg, f.hosts)
	} else {
		opt.Hosts = liveHosts(cfg, live)
	}
	bar := a.progress("preview")
	opt.Progress = bar.share
	r, err := preview.Run(ctx, opt)
	bar.end()
	if err != nil {
		return err
	}
	if f.svg != "" {
		var b bytes.Buffer
		if err := picture.SVG(&b, chartOf(r)); err != nil {
			return err
		}
		if err := os.WriteFile(f.svg, b.Bytes(), 0o644); err != nil { //nolint:gosec // a picture for everybody
			return &exitError{code: exitFailed, text: "--svg: " + err.Error()}
		}
	}
	if f.json {
		return json.NewEncoder(a.stdout).Encode(r)
	}
	if n := unknownDurations(cfg, known, assume); n > 0 {
		a.note("of %s nothing is known: their runs take no time", count(n, "job", "jobs"))
		a.hint("--redis or --durations FILE tell how long runs take, --assume 30s is a guess")
	}
	return a.writePreview(r, opt)
}

// options reads the flags.
func (f *previewFlags) options(now time.Time) (opt preview.Options, assume time.Duration, err error) {
	if f.hosts < 1 || f.hosts > mostHosts {
		return opt, 0, usage("--hosts is %d, want 1 to %d", f.hosts, mostHosts)
	}
	opt.Seed, opt.From = f.seed, now
	if f.from != "" {
		if opt.From, err = parseTime("from", f.from, now, ahead); err != nil {
			return opt, 0, err
		}
		if y := opt.From.Year(); y < 1971 || y > 2200 {
			return opt, 0, usage("--from is in the year %d, want 1971 to 2200", y)
		}
	}
	if opt.For, err = config.ParseDuration(f.window); err != nil {
		return opt, 0, usage("--for: %s", err)
	}
	if opt.For < time.Second {
		return opt, 0, usage("--for is %s, want 1s or more", f.window)
	}
	if f.assume != "" {
		if assume, err = config.ParseDuration(f.assume); err != nil {
			return opt, 0, usage("--assume: %s", err)
		}
	}
	return opt, assume, nil
}

// askPast reads what the fleet's own ledger knows. It writes nothing.
func (a *app) askPast(ctx context.Context, cfg *config.Config) (map[string][]time.Duration, []ledger.Host, error) {
	s, err := a.open()
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	hosts, err := ask(ctx, s, s.led.Hosts)
	if err != nil {
		return nil, nil, err
	}
	known, err := pastruns.Lengths(ctx, s.led, cfg, hosts)
	if err != nil {
		return nil, nil, s.explain(err)
	}
	return known, hosts, nil
}

func previewJobs(cfg *config.Config, known map[string][]time.Duration, assume time.Duration) []preview.Job {
	table := make([]preview.Job, len(cfg.Jobs))
	for i := range cfg.Jobs {
		j := &cfg.Jobs[i]
		table[i] = preview.Job{
			Job: scheduler.Job{
				Name: j.Name, Schedule: j.Schedule, Counts: true, Disabled: !j.Enabled,
				Scope: j.Scope, Hosts: j.Hosts, Lock: j.Lock, Timeout: j.Timeout, StartDeadline: j.StartDeadline, Splay: j.Splay,
				Overlap: j.Overlap, MaxParallel: j.MaxParallel, Misfire: j.Misfire, OnCrash: j.OnCrash,
			},
			KillGrace: j.KillGrace,
		}
		switch d := known[j.Name]; {
		case len(d) > 0:
			table[i].Durations = d
		case assume > 0:
			table[i].Durations = []time.Duration{assume}
		}
	}
	return table
}

func unknownDurations(cfg *config.Config, known map[string][]time.Duration, assume time.Duration) (n int) {
	for i := range cfg.Jobs {
		if len(known[cfg.Jobs[i].Name]) == 0 && assume == 0 && cfg.Jobs[i].Enabled {
			n++
		}
	}
	return n
}

// runsAtOnce is how many runs a host of the config takes at once.
func runsAtOnce(cfg *config.Config) int {
	if cfg.Host.MaxRuns > 0 {
		return cfg.Host.MaxRuns
	}
	return 4 * runtime.NumCPU()
}

// thoughtHosts makes a fleet of n. Names and labels that jobs ask for are given to its hosts, one to
// each and from the first on again: which hosts have them the config does not say.
func (a *app) thoughtHosts(cfg *config.Config, n int) []preview.Host {
	hosts := preview.HostsNamed(n)
	var words []string
	for i := range cfg.Jobs {
		words = append(words, cfg.Jobs[i].Hosts...)
	}
	slices.Sort(words)
	words = slices.Compact(words)
	words = slices.DeleteFunc(words, func(w string) bool {
		return slices.ContainsFunc(hosts, func(h preview.Host) bool { return h.Name == w })
	})
	for i := range hosts {
		hosts[i].MaxRuns = runsAtOnce(cfg)
	}
	for i, w := range words {
		h := &hosts[i%n]
		h.Labels = append(h.Labels, w)
	}
	if len(words) > 0 {
		a.note("jobs ask for the hosts %s: each is taken for one of the %d", plain(strings.Join(words, ", ")), n)
		a.hint("--redis takes the hosts of the fleet and their labels")
	}
	return hosts
}

func liveHosts(cfg *config.Config, live []ledger.Host) []preview.Host {
	hosts := make([]preview.Host, len(live))
	for i, h := range live {
		hosts[i] = preview.Host{Name: h.Name, Labels: h.Labels, MaxRuns: runsAtOnce(cfg)}
	}
	return hosts
}

// previewTitle says what was replayed.
func previewTitle(r *preview.Report) string {
	return fmt.Sprintf("Preview of %s from %s on %s", window(r.Window.Until.Sub(r.Window.From)), stampShort(r.Window.From), count(len(r.Hosts), "host", "hosts"))
}

// previewTotals says what becomes of the ticks.
func previewTotals(t preview.Ticks) string {
	parts := []string{fmt.Sprintf("%s ticks: %s run", grouped(t.Due), grouped(t.Ran))}
	for _, part := range []struct {
		n    int64
		what string
	}{{t.Skipped, "skipped"}, {t.Missed, "missed"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", grouped(part.n), part.what, percent(part.n, t.Due)))
		} else {
			parts = append(parts, "none "+part.what)
		}
	}
	if t.Waiting > 0 {
		parts = append(parts, grouped(t.Waiting)+" wait at the end")
	}
	return strings.Join(parts, ", ")
}
