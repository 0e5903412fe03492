package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"rota/internal/config"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// ref is a job as the ledger has it. One of scope "host" is a job of its own on every host,
// NAME@HOST, and can be named like that, or all of them by its name in the table.
type ref struct {
	*config.Job
	key  string // its name in the ledger
	host string // "": it is the fleet's
}

// everywhere tells whether it is one for each host, and which is not said.
func (r ref) everywhere() bool { return r.Scope == scheduler.ScopeHost && r.host == "" }

// pauseKey is the name in the ledger under which it is paused by itself.
func (r ref) pauseKey() string {
	if r.everywhere() {
		return ledger.EveryHost(r.Name)
	}
	return r.key
}

// on is the job of one host.
func (r ref) on(host string) ref { return ref{r.Job, r.Name + "@" + host, host} }

// mayRun tells whether a host is one that the job may run on.
func (r ref) mayRun(h ledger.Host) bool {
	return (r.host == "" || r.host == h.Name) && scheduler.MayRun(r.Hosts, h.Name, h.Labels)
}

// delay is how long after its ticks it starts, by its splay. Of a job of scope "host" it is each host's
// own.
func (r ref) delay() time.Duration {
	j := scheduler.Job{Name: r.key, Splay: r.Splay}
	return j.Delay()
}

// findRef reads a job's name as commands take it.
func findRef(c *config.Config, arg string) (ref, error) {
	name, host, scoped := strings.Cut(arg, "@")
	j, err := findJob(c, name)
	switch {
	case err != nil:
		return ref{}, err
	case !scoped:
		return ref{Job: j, key: j.Name}, nil
	case j.Scope != scheduler.ScopeHost:
		return ref{}, &exitError{
			code: exitUsage, text: fmt.Sprintf("%s runs once in the fleet, not on each host", j.Name),
			hint: fmt.Sprintf("leave @%s out", plain(host)),
		}
	case ledger.CheckName(host) != nil:
		return ref{}, usage("%q: %s", arg, ledger.CheckName(host))
	}
	return ref{Job: j}.on(host), nil
}

// findOne is findRef for a command that is about one job in the ledger.
func findOne(c *config.Config, arg string) (ref, error) {
	r, err := findRef(c, arg)
	if err == nil && r.everywhere() {
		return ref{}, &exitError{
			code: exitUsage, text: r.Name + " runs on every host, each for itself",
			hint: fmt.Sprintf("name one, as %s@%s", r.Name, c.Host.Name),
		}
	}
	return r, err
}

// spread replaces a job that runs on every host by those of the hosts that are there. Without one it
// stays.
func spread(refs []ref, hosts []ledger.Host) []ref {
	var out []ref
	for _, r := range refs {
		if !r.everywhere() {
			out = append(out, r)
			continue
		}
		n := len(out)
		for _, h := range hosts {
			if r.mayRun(h) {
				out = append(out, r.on(h.Name))
			}
		}
		if len(out) == n {
			out = append(out, r)
		}
	}
	return out
}

// spread asks for the hosts only where it matters.
func (s *session) spread(ctx context.Context, refs []ref) ([]ref, error) {
	for _, r := range refs {
		if r.everywhere() {
			hosts, err := ask(ctx, s, s.led.Hosts)
			return spread(refs, hosts), err
		}
	}
	return refs, nil
}

// table is every job of the config.
func (s *session) table() []ref {
	refs := make([]ref, len(s.cfg.Jobs))
	for i := range s.cfg.Jobs {
		refs[i] = ref{Job: &s.cfg.Jobs[i], key: s.cfg.Jobs[i].Name}
	}
	return refs
}

// keys are the names of jobs in the ledger.
func keys(refs []ref) []string {
	names := make([]string, len(refs))
	for i, r := range refs {
		names[i] = r.key
	}
	return names
}
