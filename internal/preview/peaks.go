package preview

import (
	"cmp"
	"slices"
	"time"

	"rota/scheduler"
)

const mostPeaks = 10

// peaks are the fullest minutes. What is in them is planned once more: nobody keeps ticks.
func (r *replay) peaks() []Peak {
	minutes := slices.DeleteFunc(slices.Clone(r.stats.minutes[:]), func(m minuteStat) bool { return m.ticks < 2 })
	slices.SortFunc(minutes, func(a, b minuteStat) int {
		return cmp.Or(cmp.Compare(b.ticks, a.ticks), cmp.Compare(b.most, a.most), cmp.Compare(a.at, b.at))
	})
	out := []Peak{}
	for _, m := range minutes[:min(len(minutes), mostPeaks)] {
		p := Peak{
			Minute: time.Unix(m.at*60, 0).UTC(), Ticks: m.ticks, Times: m.times,
			Second: time.Unix(m.second, 0).UTC(), Most: m.most,
		}
		counts := map[int]int64{}
		for d := range r.within(p.Minute, time.Minute) {
			counts[r.fleet.entries[d.Index].job]++
		}
		for job, n := range counts {
			p.Jobs = append(p.Jobs, JobCount{Job: r.opt.Jobs[job].Name, Ticks: n})
		}
		slices.SortFunc(p.Jobs, func(a, b JobCount) int {
			return cmp.Or(cmp.Compare(b.Ticks, a.Ticks), cmp.Compare(a.Job, b.Job))
		})
		out = append(out, p)
	}
	return out
}

// within plans what starts in a part of the window.
func (r *replay) within(from time.Time, length time.Duration) func(func(scheduler.Due) bool) {
	until := from.Add(length)
	if begin := r.opt.From; from.Before(begin) {
		from = begin
	}
	if end := r.opt.From.Add(r.opt.For); until.After(end) {
		until = end
	}
	return func(yield func(scheduler.Due) bool) {
		for d := range scheduler.Plan(r.fleet.jobs, from.Add(-1)) {
			if !d.At.Before(until) || !yield(d) {
				return
			}
		}
	}
}
