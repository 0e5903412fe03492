package scheduler

import (
	"context"
	"iter"
	"slices"
	"time"
)

const (
	// rearm is how long a timer may run before clocks are looked at again: whatever a clock
	// step or a sleep did, a tick is late by no more than this.
	rearm = time.Second
	// oversleep is how far the loop must find itself behind to look at each job's newest tick
	// instead of walking through all that passed.
	oversleep = time.Minute
	// stepBack is how far Redis' clock must go back for the plan to be made anew. Ticks that
	// are walked again are decided already, and their claims say so.
	stepBack = time.Second
)

// loop starts the race for each tick when it is due. It owns the plan, and ends with ctx.
func (s *Scheduler) loop(ctx context.Context) {
	if !s.awaitContact(ctx) {
		return
	}
	last := s.clock.Now()
	tab := s.current()
	p := newPlanner(tab.jobs, last)
	defer func() { p.stop() }()
	s.catchUp(ctx, tab, last)
	s.lookAll(tab)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.returned:
			s.catchUp(ctx, tab, s.clock.Now())
			s.lookAll(tab)
		case <-s.reloaded:
			tab = s.current()
			p.restart(tab.jobs, last) // what is due since then is due in the new table too
			s.lookAll(tab)
		case <-ctx.Done():
			return
		}
		s.progressed()
		now := s.clock.Now()
		switch {
		case now.Before(last.Add(-stepBack)):
			s.log.Warn("redis clock stepped back", "by", last.Sub(now))
			s.sinceBack(now)
			p.restart(tab.jobs, now)
		case now.After(last.Add(oversleep)):
			s.log.Warn("time passed unseen", "by", now.Sub(last))
			p.restart(tab.jobs, now)
			s.catchUp(ctx, tab, now)
			s.lookAll(tab)
		}
		last = now
		s.race(ctx, tab, newestOfEach(p.take(now)))
		timer.Reset(p.wait(now))
	}
}

// awaitContact waits until Redis has answered once. It tells whether ctx still lasts.
func (s *Scheduler) awaitContact(ctx context.Context) bool {
	look := time.NewTicker(rearm)
	defer look.Stop()
	for {
		s.progressed()
		select {
		case <-s.contact:
			return true
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *Scheduler) progressed() { s.progress.Store(new(time.Now())) }

// Progress is when the loop last went round. It does at least every second, whatever Redis
// does; if it did not, nothing would be claimed any more and somebody should restart it. Zero
// before Run.
func (s *Scheduler) Progress() time.Time {
	if t := s.progress.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// catchUp races for what is overdue. It asks Redis, and the loop waits for nobody.
func (s *Scheduler) catchUp(ctx context.Context, tab *table, now time.Time) {
	s.spawn(func() { s.race(ctx, tab, s.overdue(ctx, tab, now)) })
}

// overdue finds each job's newest tick that the ledger does not know decided: what is to be
// claimed when a daemon starts, when it wakes up after a sleep, and when Redis is back. One that
// may not start any more is claimed as well: the answer is late, and records it as missed now,
// not with the job's next tick, which may be a day away.
func (s *Scheduler) overdue(ctx context.Context, tab *table, now time.Time) []Due {
	var due []Due
	var names []string
	for i := range tab.jobs {
		// What is caught up is looked after as all that is left over.
		if d, ok := newest(&tab.jobs[i], i, now); ok && !(catchesUp(d.Job) && now.After(d.Deadline)) {
			due = append(due, d)
			names = append(names, d.Job.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	cursors, redisNow, err := s.opt.Ledger.Cursors(ctx, names)
	if err != nil {
		return slices.DeleteFunc(due, func(d Due) bool { return now.After(d.Deadline) })
	}
	open := due[:0]
	for i, d := range due {
		cursor := cursors[i].Tick
		s.know(d.Job.Name, minTime(cursor, redisNow))
		// Without a cursor nothing was ever decided of the job, so nothing was missed. Where it
		// cannot be read the claim is refused, and that is said.
		if d.Tick.After(cursor) && (!cursor.IsZero() || cursors[i].Err != nil || !now.After(d.Deadline)) {
			open = append(open, d)
		}
	}
	return open
}

// newestOfEach keeps the newest tick of each job. Older ones in the same batch are past their
// deadlines, which never reach beyond the next tick; the ledger counts them as missed.
func newestOfEach(due []Due) []Due {
	if len(due) < 2 {
		return due
	}
	at := make(map[int]int, len(due))
	kept := due[:0]
	for _, d := range due {
		if i, ok := at[d.Index]; ok {
			kept[i] = d
			continue
		}
		at[d.Index] = len(kept)
		kept = append(kept, d)
	}
	return kept
}

// planner holds a plan and the tick it will yield next.
type planner struct {
	pull func() (Due, bool)
	stop func()
	head Due
	ok   bool
}

func newPlanner(jobs []Job, after time.Time) *planner {
	p := &planner{}
	p.pull, p.stop = iter.Pull(Plan(jobs, after))
	p.head, p.ok = p.pull()
	return p
}

func (p *planner) restart(jobs []Job, after time.Time) {
	p.stop()
	*p = *newPlanner(jobs, after)
}

// take yields what starts up to now.
func (p *planner) take(now time.Time) []Due {
	var due []Due
	for p.ok && !p.head.At.After(now) {
		due = append(due, p.head)
		p.head, p.ok = p.pull()
	}
	return due
}

// wait is how long the loop may sleep.
func (p *planner) wait(now time.Time) time.Duration {
	if !p.ok {
		return rearm
	}
	return max(0, min(rearm, p.head.At.Sub(now)))
}
