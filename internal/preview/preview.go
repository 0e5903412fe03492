package preview

import (
	"context"
	"time"
)

// Run replays the table and reports what it found. The error is that of ctx, or says what is wrong with
// the options, all of it. It uses a few goroutines, which have ended when it returns, and is safe for
// concurrent use.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	const tail = 0.9 // the rest is for what is tried after the replay
	r := newReplay(&opt)
	if err := r.run(ctx, func(share float64) { opt.Progress(tail * share) }); err != nil {
		return nil, err
	}
	rep := r.report()
	advice, err := advise(ctx, &opt, rep, func(share float64) { opt.Progress(tail + (1-tail)*share) })
	if err != nil {
		return nil, err
	}
	rep.Advice = advice
	opt.Progress(1)
	return rep, nil
}

// report puts what was counted into its form.
func (r *replay) report() *Report {
	s := r.stats
	rep := &Report{
		Window: Window{From: r.opt.From, Until: r.opt.From.Add(r.opt.For)},
		Heat:   s.heat, Advice: []Advice{},
	}
	for i := range s.jobs {
		j := r.jobReport(i)
		rep.Ticks.add(&j.Ticks)
		rep.Jobs = append(rep.Jobs, j)
	}
	for i := range r.fleet.hosts {
		h := r.fleet.hosts[i].stat
		h.Share = share(h.Wins, rep.Ticks.Ran)
		rep.Hosts = append(rep.Hosts, h)
	}
	rep.Peaks = r.peaks()
	rep.Locks = r.locks()
	rep.Load = r.load()
	rep.Clocks = clocks(r.opt)
	rep.Warnings = r.warnings(rep)
	if rep.Jobs == nil {
		rep.Jobs = []JobReport{}
	}
	return rep
}

// counts is as much of a report as a trial needs.
func (r *replay) counts() *Report {
	rep := &Report{Locks: r.locks(), Load: Load{Ticks: r.stats.peak.ticks}}
	for i := range r.stats.jobs {
		rep.Ticks.add(&r.stats.jobs[i].Ticks)
	}
	return rep
}

func (r *replay) jobReport(i int) JobReport {
	j, s := &r.opt.Jobs[i], &r.stats.jobs[i]
	out := JobReport{
		Job: j.Name, Lock: lockNameOf(&j.Job), Hosts: s.hosts, Disabled: j.Disabled || j.Schedule == nil, Ticks: s.Ticks,
		LostShare: share(s.Skipped, s.Due), PastDeadline: s.pastDeadline, OverGap: s.overGap, TimedOut: s.TimedOut,
		Replaced: s.Replaced, SmallestGap: Millis(s.gap * int64(time.Second)), Delay: Millis(s.delay / int64(max(s.copies, 1))),
		LagP50: s.lag.quantile(0.5), LagP99: s.lag.quantile(0.99), LagMax: s.lag.max(),
		RunP50: s.took.quantile(0.5), RunMax: s.took.max(),
		Busy: r.busyShare(s.busy, s.copies), MostRan: s.mostRan, Cells: r.cells(s.cells, s.copies),
	}
	if s.first != 0 {
		out.First = time.Unix(s.first, 0).UTC()
	}
	if !out.Disabled {
		out.Next, _ = j.Schedule.Next(r.opt.From.Add(r.opt.For - out.Delay.Duration() - 1))
	}
	return out
}

// busyShare is the share of the window that so much time is, on each of copies locks or jobs.
func (r *replay) busyShare(busy int64, copies int) float64 {
	return float64(busy) / (float64(r.until-r.from) * float64(max(copies, 1)))
}

func (r *replay) cells(cells []cellStat, copies int) []Cell {
	out := make([]Cell, len(cells))
	for i, c := range cells {
		out[i] = Cell{Ticks: c.ticks, Lost: c.lost}
		if w := r.width(i); w > 0 {
			out[i].Busy = min(1, float64(c.busy)/(float64(w)*float64(max(copies, 1))))
		}
	}
	return out
}

// width is how much of the window lies in a cell.
func (r *replay) width(cell int) int64 {
	h := &r.stats.heat
	start := h.Start.UnixNano() + int64(cell)*int64(h.Step)
	if !h.Folded {
		return min(start+int64(h.Step), r.until) - start
	}
	const day = int64(24 * time.Hour)
	days := (r.until - r.from) / day
	w := days * int64(h.Step)
	// The rest of the window, which is less than a day, from where whole days have ended.
	rest := r.from + days*day
	for at := start; at < r.until; at += day {
		if at+int64(h.Step) > rest {
			w += max(0, min(at+int64(h.Step), r.until)-max(at, rest))
		}
	}
	return w
}

func (t *Ticks) add(o *Ticks) {
	t.Due += o.Due
	t.Ran += o.Ran
	t.Skipped += o.Skipped
	t.Missed += o.Missed
	t.Waiting += o.Waiting
	t.Late += o.Late
	t.Skips.Own += o.Skips.Own
	t.Skips.Other += o.Skips.Other
	t.Skips.Parallel += o.Skips.Parallel
	t.Skips.Superseded += o.Skips.Superseded
	t.Misses.Deadline += o.Misses.Deadline
	t.Misses.Full += o.Misses.Full
	t.Misses.NoHost += o.Misses.NoHost
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
