package cli

import (
	"context"
	"maps"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"rota/scheduler/ledger"
)

// drainFlags are the flags of drain.
type drainFlags struct {
	undo   bool
	reason string
	json   bool
}

func (a *app) drainCmd() *cobra.Command {
	var f drainFlags
	c := &cobra.Command{
		Use:   "drain [HOST]",
		Short: "Have a host claim nothing more",
		Long: `Tell a host, this one if none is named, to claim nothing more. Its runs go on, its daemon
stays, and the other hosts do its work. It holds over restarts, until --undo. A host that is not
there can be drained before it comes; a warning says so.`,
		Example: `  rota drain web-2 --reason "kernel upgrade"
  rota drain web-2 --undo`,
		Args: takes("[HOST]"),
		RunE: func(c *cobra.Command, args []string) error { return a.drain(c.Context(), args, f) },
	}
	c.Flags().BoolVar(&f.undo, "undo", false, "let it claim again")
	c.Flags().StringVar(&f.reason, "reason", "", "why, shown to whoever asks"+reasonHelp)
	c.Flags().BoolVar(&f.json, "json", false, "print one object: host, up, drained, changed")
	return c
}

// drainAnswer is what drain says to scripts.
type drainAnswer struct {
	Host    string     `json:"host"`
	Up      bool       `json:"up"`      // it is there now
	Drained *ledger.By `json:"drained"` // null: it may claim
	Changed bool       `json:"changed"` // false: there was nothing to undo
}

func (a *app) drain(ctx context.Context, args []string, f drainFlags) error {
	if f.undo && f.reason != "" {
		return usage("--reason is for a drain, not for its --undo: nothing would keep it")
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.close()
	host := s.cfg.Host.Name
	if len(args) > 0 {
		host = args[0]
	}
	by, err := s.by(f.reason)
	if err != nil {
		return err
	}
	// What is wrong in Redis already can be undone; it need not be a name.
	if !f.undo && !isName(host) {
		return usage("drain: %q cannot be a host: names are 1 to 64 of A-Z a-z 0-9 . _ -", host)
	}
	// All questions come before the change: where one is not answered, nothing was changed.
	hosts, err := ask(ctx, s, s.led.Hosts)
	if err != nil {
		return err
	}
	before, err := ask(ctx, s, s.led.Steering)
	if err != nil {
		return err
	}
	done, err := change(ctx, s, func(ctx context.Context) (bool, error) { return s.led.DrainHost(ctx, host, f.undo, by) })
	if err != nil {
		return err
	}
	i := slices.IndexFunc(hosts, func(h ledger.Host) bool { return h.Name == host })
	object := drainAnswer{Host: host, Up: i >= 0, Changed: done}
	switch {
	case !f.undo:
		object.Drained = &by
		going := ""
		if i >= 0 && hosts[i].Running > 0 {
			going = "; " + count(hosts[i].Running, "run goes on", "runs go on")
		}
		a.noteDrained(host, hosts, before.Drained)
		return a.answer(f.json, object, "%s claims nothing more, until 'rota drain %s --undo'%s", host, host, going)
	case done:
		return a.answer(f.json, object, "%s claims again", plain(host))
	}
	// It is as it should be, so this is no failure; unless another one was meant.
	if hint := didYouMean(nearest(host, slices.Sorted(maps.Keys(before.Drained)))); hint != "" {
		a.hint("%s", plain(hint))
	}
	return a.answer(f.json, object, "%s was not drained", plain(host))
}

// noteDrained warns of what may not be meant: a name that nobody has, and a fleet in which
// nobody is left.
func (a *app) noteDrained(host string, hosts []ledger.Host, drained map[string]ledger.By) {
	var names, claiming []string
	for _, h := range hosts {
		names = append(names, h.Name)
		if _, told := drained[h.Name]; !told && !h.Draining && h.Name != host {
			claiming = append(claiming, h.Name)
		}
	}
	switch {
	case !slices.Contains(names, host):
		a.note("no host %q is there; should it come, it claims nothing", host)
		if hint := didYouMean(nearest(host, names)); hint != "" {
			a.hint("%s", plain(hint))
		}
	case len(claiming) == 0:
		a.note("no other host is there that claims: nothing runs until one does")
	}
}

// isName holds a host to the rule of names, which is that of jobs.
func isName(s string) bool {
	ok, err := regexp.MatchString(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`, s)
	return ok && err == nil
}
