package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"rota/internal/config"
	"rota/internal/daemon"
	"rota/internal/shadow"
	"rota/locking"
)

// dryRun is what the flags of a dry run say.
type dryRun struct {
	on     bool
	hosts  int
	lasts  string
	assume string
	asJSON bool
}

func (d *dryRun) flags(f *pflag.FlagSet) {
	f.BoolVar(&d.on, "dry-run", false, "race in a shadow namespace, and run nothing")
	f.IntVar(&d.hosts, "hosts", 0, "with --dry-run, race as `N` hosts, NAME-1 to NAME-N")
	f.StringVar(&d.lasts, "for", "", "with --dry-run, end after the duration `D`")
	f.StringVar(&d.assume, "assume", "", "with --dry-run, hold the lease of a job that never ran for the duration `D`")
	f.BoolVar(&d.asJSON, "json", false, "with --dry-run, print JSON, one object a line; the last is the report")
}

// options checks the flags.
func (d *dryRun) options(f *pflag.FlagSet) (opt shadow.Options, err error) {
	if !d.on {
		for _, name := range []string{"hosts", "for", "assume", "json"} {
			if f.Changed(name) {
				return opt, &exitError{code: exitUsage, text: fmt.Sprintf("--%s is for a dry run alone", name), hint: "add --dry-run"}
			}
		}
		return opt, nil
	}
	if f.Changed("hosts") && (d.hosts < 1 || d.hosts > shadow.MostHosts) {
		return opt, usage("--hosts is %d, want 1 to %d", d.hosts, shadow.MostHosts)
	}
	opt.Hosts = d.hosts
	if f.Changed("for") {
		if opt.For, err = config.ParseDuration(d.lasts); err == nil && opt.For == 0 {
			err = errors.New("0s is no time to race in")
		}
		if err != nil {
			return opt, usage("--for: %s", err)
		}
	}
	if f.Changed("assume") {
		if opt.Assume, err = config.ParseDuration(d.assume); err != nil {
			return opt, usage("--assume: %s", err)
		}
	}
	return opt, nil
}

// showDryRun races and prints what comes of it.
func (a *app) showDryRun(ctx context.Context, opt shadow.Options, asJSON bool) error {
	redis.SetLogger(silent{}) // what it says is in the notes
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hurry := make(chan struct{})
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// The reader may have gone (rota run --dry-run | head). The session is left all the same.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)
	go func() {
		for n := 0; ; {
			select {
			case s := <-signals:
				if s == syscall.SIGHUP {
					a.note("a dry run does not read its config again: start it anew")
					continue
				}
				if n++; n == 1 {
					stop()
				} else if n == 2 {
					close(hurry)
				}
			case <-hurry:
				return
			}
		}
	}()

	var out interface {
		event(e shadow.Event) error
		report(r *shadow.Report) error
	} = &dryText{a: a, w: a.stdout, width: a.columns(), names: dryNames(&opt)}
	if asJSON {
		out = dryJSON{json.NewEncoder(a.stdout)}
	}
	var lost error
	opt.Version, opt.Logger, opt.Hurry = Version(), daemon.NewLogger(opt.Config.Log, os.Stderr), hurry
	opt.Note = func(text string) { a.note("%s", plain(text)) }
	opt.Show = func(e shadow.Event) {
		if err := out.event(e); err != nil && lost == nil {
			lost = err
			stop()
		}
	}
	r, err := shadow.Run(ctx, opt)
	switch {
	case lost != nil:
		return &exitError{code: exitFailed, text: fmt.Sprintf("nobody reads standard output: %s", lost)}
	case err != nil:
		return dryRefused(&session{cfg: opt.Config}, err)
	}
	return out.report(r)
}

// dryRefused puts into words why there was no dry run.
func dryRefused(s *session, err error) error {
	if !errors.Is(err, locking.ErrUnavailable) {
		if _, answered := errors.AsType[redis.Error](err); !answered {
			return err
		}
	}
	err = s.explain(err)
	if e, ok := errors.AsType[*exitError](err); ok && e.code == exitFailed {
		e.hint = fmt.Sprintf("a dry run needs the keys ~{%[1]s}~dry* and the channels &{%[1]s}~dry* too", s.cfg.Namespace)
	}
	return err
}

// dryJSON prints a dry run for programs.
type dryJSON struct{ enc *json.Encoder }

func (d dryJSON) event(e shadow.Event) error    { return d.enc.Encode(e) }
func (d dryJSON) report(r *shadow.Report) error { return d.enc.Encode(r) }

// dryNames are the names that the columns of a dry run must have room for: of jobs and of hosts.
func dryNames(opt *shadow.Options) (names [2][]string) {
	for i := range opt.Config.Jobs {
		name := opt.Config.Jobs[i].Name
		if opt.Config.Jobs[i].Scope == "host" {
			name = everyHost(name + "@")
		}
		names[0] = append(names[0], name)
	}
	host := opt.Config.Host.Name
	if opt.Hosts > 0 {
		host = fmt.Sprintf("%s-%d", host, opt.Hosts)
	}
	names[1] = []string{host}
	return names
}
