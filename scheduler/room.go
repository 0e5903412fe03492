package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"rota/scheduler/ledger"
)

// room bounds the runs that this host has at once, of jobs that count. A place is taken before a
// claim is sent, for the claim may be won. Ticks for which there is none wait here, in the order in
// which they came, until a run ends, another host has them, or it is too late.
type room struct {
	mu      sync.Mutex
	free    int
	waiting []arrival
	wake    chan struct{} // a place is free, or somebody waits
}

// arrival is a tick, or a run asked for by hand, that waits for a place.
type arrival struct {
	table   *table
	due     Due
	request ledger.Request // ID "": none
}

func newRoom(places int) *room { return &room{free: places, wake: make(chan struct{}, 1)} }

// enter takes a place for a try. False: there is none.
func (r *room) enter(t *try) bool {
	if !t.due.Job.Counts || t.placed {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free <= 0 {
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

// wait has a tick wait for a place.
func (r *room) wait(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, a)
	r.rouse()
}

// full tells whether a try of the job would have to wait.
func (r *room) full(j *Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return j.Counts && r.free <= 0
}

// late takes out who cannot start any more.
func (r *room) late(now time.Time) (out []arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(a arrival) bool {
		over := now.After(a.due.Deadline)
		if over {
			out = append(out, a)
		}
		return over
	})
	return out
}

// first takes out the first who wait, as many as there are places. They still have to enter.
func (r *room) first() []arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(max(0, r.free), len(r.waiting))
	out := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	return out
}

// look is how long the door need not be looked at, whatever happens.
func (r *room) look(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := rearm
	for _, a := range r.waiting {
		d = min(d, a.due.Deadline.Sub(now)+time.Millisecond)
	}
	return max(0, d)
}

func (r *room) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// door lets the ticks in that wait for a place, and sees to those for which there was none in time.
// It ends with ctx.
func (s *Scheduler) door(ctx context.Context) {
	timer := time.NewTimer(rearm)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.room.wake:
		case <-ctx.Done():
			return
		}
		if late := s.room.late(s.clock.Now()); len(late) > 0 {
			s.spawn(func() { s.shutOut(ctx, late) })
		}
		s.admit(ctx)
		timer.Reset(s.room.look(s.clock.Now()))
	}
}

// admit claims for those that have waited longest, as many as there are places. What another host
// has taken meanwhile makes room for the next.
func (s *Scheduler) admit(ctx context.Context) {
	for {
		first := s.room.first()
		if len(first) == 0 {
			return
		}
		var tries []*try
		for _, a := range s.stillOpen(ctx, first) {
			t := s.arrived(a)
			if s.room.enter(t) {
				tries = append(tries, t)
			} else {
				s.room.wait(a)
			}
		}
		for chunk := range slices.Chunk(tries, pipeline) {
			s.spawn(func() { s.send(ctx, chunk) })
		}
	}
}

// stillOpen leaves out the ticks that another host has decided.
func (s *Scheduler) stillOpen(ctx context.Context, all []arrival) []arrival {
	var out []arrival
	for _, a := range all {
		if a.request.ID != "" {
			out = append(out, a)
		}
	}
	byTable := map[*table][]Due{}
	for _, a := range all {
		if a.request.ID == "" {
			byTable[a.table] = append(byTable[a.table], a.due)
		}
	}
	for tab, due := range byTable {
		for _, d := range s.untaken(ctx, tab, due) {
			out = append(out, arrival{table: tab, due: d})
		}
	}
	return out
}

// arrived makes the try of who waited.
func (s *Scheduler) arrived(a arrival) *try {
	if a.request.ID != "" {
		return s.manualTry(a.table, a.due.Job, a.request)
	}
	return s.newTry(a.table, a.due)
}

// shutOut records that there was no place for ticks on any host: each full one comes here, in its
// order, and the first writes it. What is caught up is left to that.
func (s *Scheduler) shutOut(ctx context.Context, late []arrival) {
	byRank := map[int][]arrival{}
	for _, a := range late {
		if a.request.ID == "" && catchesUp(a.due.Job) {
			s.tending.add(a.due.Job.Name, s.rankFor(a.due.Job), time.Now())
			continue
		}
		k := min(rank(a.due.Job.Name, a.due.Tick, s.opt.Host, s.rivals(a.due.Job)), lastStep)
		byRank[k] = append(byRank[k], a)
	}
	for k, some := range byRank {
		s.spawn(func() {
			if sleep(ctx, s.turnOf(k)) {
				s.shutOutNow(ctx, some)
			}
		})
	}
}

func (s *Scheduler) shutOutNow(ctx context.Context, late []arrival) {
	names := make([]string, len(late))
	for i, a := range late {
		names[i] = a.due.Job.Name
	}
	// A tick that is decided may wait for the lock, and a claim would win it.
	call, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	cursors, _, err := s.opt.Ledger.Cursors(call, names)
	cancel()
	if err != nil {
		return // the next claim of each job counts what it missed
	}
	var tries []*try
	for i, a := range late {
		if a.request.ID != "" || cursors[i].Err == nil && a.due.Tick.After(cursors[i].Tick) {
			t := s.arrived(a)
			t.claim.Barred = hostsFull
			tries = append(tries, t)
		}
	}
	for chunk := range slices.Chunk(tries, pipeline) {
		s.send(ctx, chunk)
	}
}

// hostsFull is why a tick was missed that found no place.
const hostsFull = "hosts full"
