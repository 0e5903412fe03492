package preview

import (
	"cmp"
	"slices"
	"time"
)

const mostPairs = 20

// locks are those that several jobs name, and those that were found held.
func (r *replay) locks() []LockReport {
	out := []LockReport{}
	for _, l := range r.stats.locks {
		if l.held == 0 && len(l.jobs) < 2 {
			continue
		}
		rep := LockReport{
			Lock: l.name, Jobs: l.jobs, Claims: l.claims, Held: l.held, ByPair: []Contended{},
			Busy: r.busyShare(l.busy, l.copies), MaxWait: Millis(l.wait), Cells: r.cells(l.cells, l.copies),
		}
		for pair, n := range l.pairs {
			rep.ByPair = append(rep.ByPair, Contended{Job: r.opt.Jobs[pair[0]].Name, Holder: r.opt.Jobs[pair[1]].Name, Times: n})
		}
		slices.SortFunc(rep.ByPair, func(a, b Contended) int {
			return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Holder, b.Holder))
		})
		rep.ByPair = rep.ByPair[:min(len(rep.ByPair), mostPairs)]
		if l.wait > 0 {
			rep.Longest, rep.Since = r.opt.Jobs[l.waiter].Name, time.Unix(l.since, 0).UTC()
		}
		out = append(out, rep)
	}
	slices.SortStableFunc(out, func(a, b LockReport) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Lock, b.Lock))
	})
	return out
}
