package preview

import (
	"time"
)

// stats is what a replay counts. The decider alone touches it.
type stats struct {
	from, until int64
	heat        Heat
	jobs        []jobStat
	locks       []*lockStat
	byLock      map[string]*lockStat

	minutes [24 * 60]minuteStat // of the day
	minute  minuteStat          // the one that is being counted
	second  secondStat          // likewise
	peak    secondStat          // the fullest second
	going   int64               // runs
	ticks   int64
	seen    func(job string, tick int64, what string, host int, lag int64)
}

// jobStat is what is counted of a job of the table, all its entries together.
type jobStat struct {
	Ticks
	hosts, copies int
	delay         int64
	first, last   int64 // ticks, in seconds
	lastNext      int64
	gap           int64 // the smallest, in seconds
	pastDeadline  int64
	overGap       int64
	TimedOut      int64
	Replaced      int64
	mostRan       int
	lag, took     histogram
	busy          int64
	cells         []cellStat
}

// lockStat is what is counted of a lock; of the locks of all hosts together, under scope "host".
type lockStat struct {
	name         string
	jobs         []string
	copies       int
	claims, held int64
	pairs        map[[2]int]int64 // who found it held by whom
	busy         int64
	wait         int64
	waiter       int
	since        int64
	cells        []cellStat
}

type cellStat struct {
	ticks, lost, busy int64
}

type minuteStat struct {
	at, ticks    int64 // at in minutes since 1970
	times        int
	second, most int64
}

type secondStat struct {
	at, ticks, ends, going int64
}

func newStats(opt *Options) *stats {
	s := &stats{
		from: opt.From.UnixNano(), until: opt.From.Add(opt.For).UnixNano(),
		jobs: make([]jobStat, len(opt.Jobs)), byLock: map[string]*lockStat{},
		heat: heatOf(opt.From, opt.For), seen: opt.seen,
	}
	for i := range s.jobs {
		s.jobs[i].cells = make([]cellStat, s.heat.Cells)
	}
	return s
}

// heatOf divides a window.
func heatOf(from time.Time, length time.Duration) Heat {
	const day, cells, fine = 24 * time.Hour, 24, 24 * 60
	h := Heat{Start: from}
	if length >= day {
		h.Folded, h.Start = true, from.Truncate(day)
		length = day
	}
	step := max(time.Second, (length+cells-1)/cells)
	h.Step, h.Cells = Millis(step), int((length+step-1)/step)
	step = max(time.Second, (length+fine-1)/fine)
	h.FineStep, h.Fine = Millis(step), make([]int64, (length+step-1)/step)
	return h
}

// within is an instant's place among n steps.
func (h *Heat) within(at int64, step Millis, n int) int {
	d := at - h.Start.UnixNano()
	if h.Folded {
		d %= int64(24 * time.Hour)
	}
	return max(0, min(int(d/int64(step)), n-1))
}

func (h *Heat) cell(at int64) int { return h.within(at, h.Step, h.Cells) }

// spread adds a stretch of time to the cells that it lies in.
func (h *Heat) spread(cells []cellStat, from, until int64) {
	for from < until {
		step := int64(h.Step)
		d := from - h.Start.UnixNano()
		end := min(until, from+step-(d%step+step)%step)
		cells[h.cell(from)].busy += end - from
		from = end
	}
}

func (s *stats) lock(name string) *lockStat {
	l := s.byLock[name]
	if l == nil {
		l = &lockStat{name: name, pairs: map[[2]int]int64{}, cells: make([]cellStat, s.heat.Cells)}
		s.byLock[name] = l
		s.locks = append(s.locks, l)
	}
	return l
}

func (s *stats) due(e *entry, t *tick) {
	j := e.stat
	j.Due++
	j.cells[s.heat.cell(t.at)].ticks++
	if j.first == 0 || t.tick < j.first {
		j.first = t.tick
	}
	j.last, j.lastNext = t.tick, t.next
	if t.next != 0 && t.next*int64(time.Second)+e.delay < s.until {
		if gap := t.next - t.tick; j.gap == 0 || gap < j.gap {
			j.gap = gap
		}
	}
	s.heat.Fine[s.heat.within(t.at, s.heat.FineStep, len(s.heat.Fine))]++
	s.count(t.at / int64(time.Second))
}

// count counts a tick that starts in a second.
func (s *stats) count(second int64) {
	s.upTo(second)
	s.ticks++
	s.second.ticks++
	if m := second / 60; m != s.minute.at {
		s.closeMinute()
		s.minute = minuteStat{at: m}
	}
	s.minute.ticks++
	if s.second.ticks > s.minute.most {
		s.minute.second, s.minute.most = second, s.second.ticks
	}
}

// upTo begins a second, if it is another one.
func (s *stats) upTo(second int64) {
	if second == s.second.at {
		return
	}
	if s.second.ticks > s.peak.ticks {
		s.peak = s.second
	}
	s.second = secondStat{at: second, going: s.going}
}

func (s *stats) closeMinute() {
	if s.minute.ticks == 0 {
		return
	}
	m := &s.minutes[s.minute.at%int64(len(s.minutes))]
	switch {
	case s.minute.ticks > m.ticks:
		*m = s.minute
		m.times = 1
	case s.minute.ticks == m.ticks:
		m.times++
	}
}

func (s *stats) tell(e *entry, t *tick, what string, host int, lag int64) {
	if s.seen != nil {
		s.seen(e.plan.Name, t.tick, what, host, lag)
	}
}

func (s *stats) skipped(e *entry, t *tick, why *int64) {
	s.tell(e, t, "skipped", -1, 0)
	e.stat.Skipped++
	*why++
	e.stat.cells[s.heat.cell(t.at)].lost++
}

func (s *stats) missed(e *entry, t *tick, why *int64) {
	s.tell(e, t, "missed", -1, 0)
	e.stat.Missed++
	*why++
	e.stat.pastDeadline++
	e.stat.cells[s.heat.cell(t.at)].lost++
}

func (s *stats) ran(e *entry, t *tick, u *run, now int64, late, waited bool) {
	j := e.stat
	s.tell(e, t, "ran", u.host, now-t.tick*int64(time.Second))
	j.Ran++
	j.lag.add(now - t.at)
	if late {
		j.Late++
		j.pastDeadline++
	}
	if t.next != 0 && u.end > t.next*int64(time.Second)+e.delay {
		j.overGap++
	}
	j.mostRan = max(j.mostRan, e.going)
	if l := e.lock.stat; waited && now-t.at > l.wait {
		l.wait, l.waiter, l.since = now-t.at, e.job, t.tick
	}
	s.going++
}

func (s *stats) ended(u *run, now int64) {
	u.entry.stat.took.add(u.end - u.begin)
	s.going--
	s.upTo(now / int64(time.Second))
	s.second.ends++
}

func (s *stats) busy(e *entry, from, until int64) {
	from, until = max(from, s.from), min(until, s.until)
	if until > from {
		e.stat.busy += until - from
		s.heat.spread(e.stat.cells, from, until)
	}
}

func (l *lockStat) busyFor(from, until int64, s *stats) {
	from, until = max(from, s.from), min(until, s.until)
	if until > from {
		l.busy += until - from
		s.heat.spread(l.cells, from, until)
	}
}

func (l *lockStat) claim(at int64, s *stats) {
	l.claims++
	l.cells[s.heat.cell(at)].ticks++
}

func (l *lockStat) heldBy(e, holder *entry, at int64, s *stats) {
	l.held++
	l.cells[s.heat.cell(at)].lost++
	l.pairs[[2]int{e.job, holder.job}]++
}

// close ends what goes on when the window does.
func (r *replay) close() {
	s := r.stats
	s.upTo(-1)
	s.closeMinute()
	for i := range r.fleet.entries {
		e := &r.fleet.entries[i]
		e.stat.Waiting += int64(len(e.open))
		if w := &e.waiting; w.tick != 0 {
			e.stat.Waiting++
			if l := e.lock.stat; r.until-w.at > l.wait {
				l.wait, l.waiter, l.since = r.until-w.at, e.job, w.tick
			}
			if w.deadline < r.until {
				e.stat.pastDeadline++
			}
		}
		for k := range e.open {
			if e.open[k].deadline < r.until {
				e.stat.pastDeadline++
			}
		}
		if e.going > 0 {
			s.busy(e, e.busySince, r.until)
		}
	}
	for _, l := range r.fleet.locks {
		if l.holder != nil {
			l.stat.busyFor(l.since, r.until, s)
		}
	}
}
