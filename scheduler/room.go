package scheduler

import (
	"slices"
	"sync"
	"time"

	"rota/scheduler/ledger"
)

// room bounds the runs that this host has at once, of jobs that count. A place is taken before a
// claim is sent, for the claim may be won; what was not won gives it back with its answer. Whoever finds
// none waits in a line until a run ends, another host has the tick, or it is too late. As long as somebody
// waits, nobody takes a place but from the front of the line.
type room struct {
	mu      sync.Mutex
	free    int
	waiting []arrival
	wake    chan struct{} // a place is free, or somebody waits
}

// arrival is a tick, or a run asked for by hand, that waits for a place. What a job owes may be another
// tick by the time there is one, so of that there is no more than the job, and no deadline.
type arrival struct {
	table   *table
	due     Due
	request ledger.Request // ID "": none
	owed    bool
}

func newRoom(places int) *room { return &room{free: places, wake: make(chan struct{}, 1)} }

// enter takes a place for a try that has none, if it needs one. False: it has to wait in line.
func (r *room) enter(t *try) bool {
	if !t.due.Job.Counts || t.placed {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free <= 0 || len(r.waiting) > 0 {
		return false
	}
	r.free--
	t.placed = true
	return true
}

// leave gives a place back, if it was taken.
func (r *room) leave(placed *bool) {
	if !*placed {
		return
	}
	*placed = false
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free++
	r.rouse()
}

// wait puts somebody at the end of the line.
func (r *room) wait(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, a)
	r.rouse()
}

// late takes out who cannot start any more, by Redis' clock too: its scripts count whole milliseconds, and
// within that of the deadline they would still let it start.
func (r *room) late(now time.Time) (out []arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(a arrival) bool {
		over := !a.owed && !now.Before(a.due.Deadline.Add(resolution))
		if over {
			out = append(out, a)
		}
		return over
	})
	return out
}

// first takes out the first of the line, as many as there are places, and a place for each of them.
func (r *room) first() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(max(0, r.free), len(r.waiting))
	out := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	r.free -= n
	return out
}

// look is how long the door need not be looked at, whatever happens.
func (r *room) look(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := rearm
	for _, a := range r.waiting {
		if !a.owed {
			d = min(d, a.due.Deadline.Sub(now)+resolution)
		}
	}
	return max(0, d)
}

func (r *room) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}
