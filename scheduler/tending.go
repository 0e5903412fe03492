package scheduler

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// tending is the list of jobs that this host looks after, because they may have a tick that wants
// a run at another time than the plan brings it. tend alone looks; anybody may add.
type tending struct {
	mu   sync.Mutex
	jobs map[string]*care
	gave map[string]time.Time // when a tick of the job was given back here
	free map[string]time.Time // when a hint said last that the lock is free
	wake chan struct{}
}

// care is what is known of one such job. All instants are of the local clock.
type care struct {
	at   time.Time // when to look
	rank int       // this host's place among those that look after it, or own if that is better
	own  int       // the rank of what this host may be alone to know; lastStep: nothing
	busy bool      // it is being looked at, or a claim of it is under way
	next time.Time // busy: what happened meanwhile asks for a look then; zero: nothing did
	what string    // what was found at the job, and when for the first time
	from time.Time

	// floor is the newest tick that a claim was told is decided or not due, by Redis' clock: the
	// record alone does not say so of ticks before the schedule's time or inside a pause.
	floor time.Time
}

func newTending() *tending {
	return &tending{jobs: map[string]*care{}, gave: map[string]time.Time{}, free: map[string]time.Time{}, wake: make(chan struct{}, 1)}
}

// add has a job looked at, at an instant or sooner. rank is this host's place among those that look
// after it.
func (g *tending) add(job string, rank int, at time.Time) { g.put(job, rank, lastStep, at) }

// addOwn is add for what this host may be alone to know, whatever its place among the others is.
func (g *tending) addOwn(job string, rank int, at time.Time) { g.put(job, rank, rank, at) }

func (g *tending) put(job string, rank, own int, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.jobs[job]
	if c == nil {
		c = &care{at: at, rank: rank, own: own}
		g.jobs[job] = c
	}
	c.rank, c.own = min(c.rank, rank), min(c.own, own)
	c.sooner(at)
	g.rouse()
}

// rerank gives this host its new place everywhere, after the fleet has changed.
func (g *tending) rerank(place func(job string) int) {
	g.mu.Lock()
	names := slices.Collect(maps.Keys(g.jobs))
	g.mu.Unlock()
	for _, name := range names {
		k := place(name) // takes a lock of its own
		g.mu.Lock()
		if c := g.jobs[name]; c != nil {
			c.rank = min(k, c.own)
		}
		g.mu.Unlock()
	}
}

// poke has the jobs on the list that match looked at soon: after a delay by their rank.
func (g *tending) poke(now time.Time, delay func(rank int) time.Duration, match func(job string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, c := range g.jobs {
		if match(name) {
			c.sooner(now.Add(delay(c.rank)))
		}
	}
	g.rouse()
}

func (c *care) sooner(at time.Time) {
	switch {
	case !c.busy:
		c.at = earlier(c.at, at)
	case c.next.IsZero():
		c.next = at
	default:
		c.next = earlier(c.next, at)
	}
}

// due lists the jobs to look at now. Each is busy until settled.
func (g *tending) due(now time.Time) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name, c := range g.jobs {
		if !c.busy && !c.at.After(now) {
			c.busy, c.next = true, time.Time{}
			names = append(names, name)
		}
	}
	return names
}

// again ends a look: the next one is at an instant, or sooner if something has happened since.
func (g *tending) again(job string, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.jobs[job]; c != nil {
		if c.busy, c.at = false, at; !c.next.IsZero() {
			c.at = earlier(at, c.next)
		}
	}
	g.rouse()
}

// drop ends a look after which nothing is left to look for, unless something has happened since.
func (g *tending) drop(job string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.jobs[job]
	if c == nil {
		return
	}
	if c.busy, c.at = false, c.next; c.next.IsZero() {
		delete(g.jobs, job)
	}
	g.rouse()
}

// rankOf is this host's place among those that look after a job.
func (g *tending) rankOf(job string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.jobs[job]; c != nil {
		return c.rank
	}
	return lastStep
}

// found notes what was found at a job, and returns when it was found for the first time.
func (g *tending) found(job, what string, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.jobs[job]
	if c == nil {
		return now
	}
	if c.what != what {
		c.what, c.from = what, now
	}
	return c.from
}

// raise notes that no tick of a job up to that one need be caught up.
func (g *tending) raise(job string, tick time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.jobs[job]; c != nil {
		c.floor = later(c.floor, tick)
	}
}

func (g *tending) floorOf(job string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.jobs[job]; c != nil {
		return c.floor
	}
	return time.Time{}
}

// wait is how long nobody need look.
func (g *tending) wait(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := rearm
	for _, c := range g.jobs {
		if !c.busy {
			d = min(d, c.at.Sub(now))
		}
	}
	return max(0, d)
}

// givesBack notes that this host gives a tick of the job back.
func (g *tending) givesBack(job string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gave[job] = now
}

// afterOthers is how much later than the others this host may claim a tick of the job, because it has
// just given one back: whatever kept it from running that may last.
func (g *tending) afterOthers(job string, now time.Time) time.Duration {
	const remembered = time.Minute
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.gave[job]
	switch {
	case !ok:
		return 0
	case now.Sub(at) > remembered:
		delete(g.gave, job)
		return 0
	}
	return retakeAfter
}

// retakeAfter is how long a host that gave a tick back leaves it to the others.
const retakeAfter = time.Second

// hinted notes that a lock was said to be free.
func (g *tending) hinted(lock string, now time.Time) {
	const outdated = time.Minute // answers to claims have come by then
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free[lock] = now
	for name, at := range g.free {
		if now.Sub(at) > outdated {
			delete(g.free, name)
		}
	}
}

// freedSince tells whether a lock was said to be free at an instant or later.
func (g *tending) freedSince(lock string, at time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	free, ok := g.free[lock]
	return ok && !free.Before(at)
}

// rouse makes tend look at the list. The caller holds the lock.
func (g *tending) rouse() {
	select {
	case g.wake <- struct{}{}:
	default: // it will
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
