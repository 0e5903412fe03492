//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// What the daemon does about cgroups: it makes the place for them, hands it to each of its wardens, and
// ends what a lost warden left in it.

// errCgroupsOff is why a Warden has no cgroups of which none were asked.
var errCgroupsOff = errors.New("nobody asked for cgroups")

// openCgroups ends what earlier daemons left in the cgroup that was delegated to this process, and makes
// a place there. The error is why there is none.
func openCgroups(log *slog.Logger) (*cgroups, error) {
	site, err := findCgroup()
	if err == nil {
		ended, sweepErr := site.sweep(context.Background())
		if len(ended) > 0 {
			log.Warn("runs of an earlier daemon ended", "run", strings.Join(ended, " "),
				"reason", "it and its warden were killed, and these lived on in their cgroups")
		}
		if sweepErr != nil {
			log.Warn("cgroups of an earlier daemon left", "err", sweepErr, "effect", "the next daemon tries again")
		}
		var c *cgroups
		if c, err = site.open(); err == nil {
			log.Info("runs get cgroups", "file", string(c.dir))
			return c, nil
		}
	}
	log.Info("runs get no cgroups", "reason", err,
		"effect", "their processes are found by their group, their parents and ROTA_RUN; limits are not set")
	return nil, err
}

// closeCgroups ends what no warden ended, and removes the place.
func (w *Warden) closeCgroups() error {
	if w.cgroups == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), buryPatience,
		fmt.Errorf("processes of runs live on in %s", w.cgroups.dir))
	defer cancel()
	return errors.Join(w.cgroups.end(ctx), w.cgroups.close())
}

// clearCgroups removes those of a lost warden's runs, once they are dead, and keeps what the runs used.
func (w *Warden) clearCgroups(l *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wd := range l.wards {
		dir, ok := w.cgroups.of(wd.run)
		if !ok {
			continue
		}
		u, err := dir.usage()
		wd.used = usage{u.cpu, u.peakBytes}
		if err = errors.Join(err, dir.remove()); err != nil {
			l.tellFlaw(wd, flawMessage{wd.id, flawLeft, oneLine(err)})
		}
	}
}

// Lacking says which of the limits no run of this Warden has: an error for each, joined, and why. Nil: all can
// be set. A run that has none of its limits runs all the same, see [Limits].
func (w *Warden) Lacking(l Limits) error {
	if w.cgroups != nil {
		return w.cgroups.lacking(l)
	}
	return l.lackingAll(w.without)
}

// lackingAll is what is said when none can be set, for one reason.
func (l Limits) lackingAll(why error) (lacking error) {
	lacks := map[string]error{}
	for _, name := range controllers() {
		lacks[name] = why
	}
	return (&cgroups{lacks: lacks}).lacking(l)
}
