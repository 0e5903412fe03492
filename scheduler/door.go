package scheduler

import (
	"context"
	"slices"
	"time"
)

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

// admit claims for those that have waited longest, as many as there are places, which are theirs from
// then on. Of what another host has taken meanwhile the place goes back, and to the next in line.
func (s *Scheduler) admit(ctx context.Context) {
	var tries []*try
	for _, a := range s.stillOpen(ctx, s.room.first()) {
		if a.owed {
			s.spawn(func() { s.look(ctx, []string{a.due.Job.Name}, true) })
			continue
		}
		t := s.arrived(a)
		t.placed = true
		tries = append(tries, t)
	}
	for chunk := range slices.Chunk(tries, pipeline) {
		s.spawn(func() { s.send(ctx, chunk) })
	}
}

// stillOpen leaves out the ticks that another host has decided, and gives their places back.
func (s *Scheduler) stillOpen(ctx context.Context, all []arrival) []arrival {
	var out []arrival
	byTable := map[*table][]Due{}
	for _, a := range all {
		if a.owed || a.request.ID != "" {
			out = append(out, a)
		} else {
			byTable[a.table] = append(byTable[a.table], a.due)
		}
	}
	for tab, due := range byTable {
		for _, d := range s.untaken(ctx, tab, due) {
			out = append(out, arrival{table: tab, due: d})
		}
	}
	for range len(all) - len(out) {
		s.unplace(true)
	}
	return out
}

// unplace gives a place back that was kept for somebody and is not used.
func (s *Scheduler) unplace(placed bool) { s.room.leave(&placed) }

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
	why := s.fullOf()
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
				s.shutOutNow(ctx, some, why)
			}
		})
	}
}

// fullOf is why there was no place: runs have them, or else claims that Redis leaves without an answer,
// which is no reason of this host's.
func (s *Scheduler) fullOf() (why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.runs {
		if r.job.Counts {
			n++
		}
	}
	if n < s.opt.MaxRuns {
		return ""
	}
	return hostsFull
}

func (s *Scheduler) shutOutNow(ctx context.Context, late []arrival, why string) {
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
			if t.claim.Barred = why; a.request.ID != "" {
				t.claim.Barred = hostsFull // whoever asked can force it
			}
			tries = append(tries, t)
		}
	}
	for chunk := range slices.Chunk(tries, pipeline) {
		s.send(ctx, chunk)
	}
}

// hostsFull is why a tick was missed that found no place.
const hostsFull = "hosts full"
