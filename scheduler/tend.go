package scheduler

import (
	"context"
	"slices"
	"strings"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// tend looks after jobs with ticks that want a run at another time than the plan brings them: one
// that waits for the lock, one that was given back, one whose run ended with its host, one that nobody
// ran in time. Which of them a job has is in its record; what puts a job on the list is an answer to a
// claim, a heartbeat, a hint, or a host that went. tend ends with ctx.
func (s *Scheduler) tend(ctx context.Context) {
	select {
	case <-s.contact:
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.tending.wake:
		case <-ctx.Done():
			return
		}
		for names := range slices.Chunk(s.tending.due(time.Now()), lookAtOnce) {
			s.look(ctx, names, false)
		}
		timer.Reset(s.tending.wait(time.Now()))
	}
}

// lookAtOnce bounds the records that are read in one call.
const lookAtOnce = 500

// tended tells whether a job may have such ticks by its policies; one that was given back may be any
// job's, and is known from the heartbeats.
func tended(j *Job) bool {
	return j.Overlap == OverlapQueue || j.Overlap == OverlapReplace || j.OnCrash == CrashRerun || catchesUp(j)
}

// lookAll has every job looked at that may have such ticks: when this host starts, when Redis is
// back, when another host went, when the table is another.
func (s *Scheduler) lookAll(tab *table) {
	now := time.Now()
	for i := range tab.jobs {
		if j := &tab.jobs[i]; j.due() && tended(j) {
			s.tending.add(j.Name, s.rankFor(j), now)
		}
	}
}

// rankFor is this host's place among those that look after a job, always the same.
func (s *Scheduler) rankFor(j *Job) int {
	return min(rank(j.Name, time.Time{}, s.opt.Host, s.rivals(j)), lastStep)
}

// rerank gives this host its place among those that look after each job, as the fleet is now.
func (s *Scheduler) rerank(tab *table) {
	s.tending.rerank(func(name string) int {
		if j, _ := tab.job(name); j != nil {
			return s.rankFor(j)
		}
		return lastStep
	})
}

// turnOf is how long a host of a rank leaves to those before it.
func (s *Scheduler) turnOf(rank int) time.Duration { return turn(rank, Step(s.clock.p99())) }

// look reads where jobs stand, and claims what they owe. placed: there is a place for each, which is
// given back where none is needed.
func (s *Scheduler) look(ctx context.Context, names []string, placed bool) {
	tab := s.current()
	now := time.Now()
	again := func(name string, at time.Time) {
		s.unplace(placed)
		s.tending.again(name, at)
	}
	drop := func(name string) {
		s.unplace(placed)
		s.tending.drop(name)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		j, _ := tab.job(name)
		switch {
		case j == nil || !j.due() || s.isDrained():
			drop(name)
		case s.isStuck(name):
			again(name, now.Add(lastBackoff))
		case s.isPaused(name):
			again(name, now.Add(ledger.BeatEvery))
		default:
			return false
		}
		return true
	})
	call, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	standings, err := s.opt.Ledger.Standings(call, names)
	cancel()
	if err != nil {
		for _, name := range names {
			again(name, now.Add(lastBackoff))
		}
		return
	}
	for i := range standings {
		st := &standings[i]
		j, index := tab.job(st.Job)
		if st.Err != nil {
			again(st.Job, now.Add(refusedBackoff)) // the next claim names the key
			continue
		}
		d, wait := owed(j, index, st, s.baseOf(tab, st), s.clock.Now())
		switch at := s.claimableAt(&d, now); {
		case !d.none() && at.After(now):
			again(st.Job, at)
		case !d.none():
			s.spawn(func() { s.repay(ctx, tab, d, placed) })
		case wait > 0:
			again(st.Job, now.Add(wait+s.turnOf(s.tending.rankOf(st.Job))))
		default:
			drop(st.Job)
		}
	}
}

// baseOf is the newest tick of a job that is decided or not due, as far as this host knows.
func (s *Scheduler) baseOf(tab *table, st *ledger.Standing) time.Time {
	base := st.Cursor
	if base.IsZero() {
		s.mu.Lock()
		base = s.sinceOf(tab, st.Job)
		s.mu.Unlock()
	}
	return later(base, s.tending.floorOf(st.Job))
}

// claimableAt is when this host may claim a tick that is owed.
func (s *Scheduler) claimableAt(d *debt, now time.Time) time.Time {
	if d.none() {
		return now
	}
	name := d.due.Job.Name
	from := s.tending.found(name, d.kindOf(), now)
	at := from.Add(s.tending.afterOthers(name, now))
	switch {
	case d.rerun != "" && s.isDelivering(d.rerun):
		return now.Add(lastBackoff) // the outcome is this host's own, and it keeps at it
	case d.rerun != "" && s.redis.awayWithin(s.opt.TTL):
		// Its host may be alive: Redis is what was away, and an outcome is on its way.
		return later(at, from.Add(s.opt.RenewEvery))
	case d.late:
		var gap, until time.Duration
		if next := d.due.Next; !next.IsZero() {
			gap = next.Sub(d.due.Tick)
			until = next.Add(d.due.Job.Delay()).Sub(s.clock.Now()) + now.Sub(from)
		}
		return at.Add(Spread(name, gap, until) + s.turnOf(s.tending.rankOf(name)))
	}
	return at
}

// guard has a job looked after whose tick another host has won, if this host is one of the few that
// run it again when that one dies. The lease tells them when it could, so they are not all too busy:
// most runs are over before the first look.
func (s *Scheduler) guard(j *Job, tick time.Time) {
	if j.OnCrash != CrashRerun {
		return
	}
	if k := rank(j.Name, tick, s.opt.Host, s.rivals(j)); k <= lookers {
		s.tending.addOwn(j.Name, k, time.Now().Add(s.opt.RenewEvery))
	}
}

// repay claims a tick that is owed, until it is answered, and says when to look at its job again. placed:
// it has a place. Without one, and none is free, it waits in line, and its job is looked at when it is its
// turn.
func (s *Scheduler) repay(ctx context.Context, tab *table, d debt, placed bool) {
	name := d.due.Job.Name
	var a answer
	for range 2 {
		t := s.newTry(tab, d.due)
		t.claim.Kind, t.owed, t.placed = d.kind, true, placed
		placed = false
		if !s.room.enter(t) {
			s.room.wait(t.arrival())
			return
		}
		var ok bool
		if a, ok = s.answerTo(ctx, t); !ok {
			s.tending.again(name, time.Now().Add(refusedBackoff))
			return
		}
		if a.Answer != ledger.Behind {
			break
		}
		if d, ok = oldest(d.due.Job, d.due.Index, a.Base, t.claim.Back, s.clock.Now()); !ok {
			break
		}
	}
	wait := lastBackoff
	switch a.Answer {
	case ledger.Won:
		wait = s.opt.TTL // the run's end says so
	case ledger.Held:
		wait = patience(s.tending.rankOf(name), a.Left)
	case ledger.Early:
		wait = a.Wait
	case ledger.Paused:
		wait = ledger.BeatEvery // by then the heart knows of the pause
	case ledger.Drained, ledger.Future:
		s.tending.drop(name)
		return
	case ledger.Already, ledger.Late:
		if d.late {
			s.tending.raise(name, d.due.Tick) // whatever the record says of it
		}
	case ledger.Behind: // somebody paused, or set the clock
	}
	s.tending.again(name, time.Now().Add(wait))
}

// answerTo asks until there is an answer, and settles it. ok is false if there will be none: the
// claim was refused, its time is over, or ctx has ended; then it is given back if it may have been won.
// Its time is that of a lease at most: whoever is not heard keeps the lock from the others.
func (s *Scheduler) answerTo(ctx context.Context, t *try) (a answer, ok bool) {
	begun := time.Now()
	for t.backoff = firstBackoff; ; t.backoff = min(2*t.backoff, lastBackoff) {
		s.call(func(context.Context) { a = s.ask(ctx, []*try{t})[0] }) //nolint:contextcheck // the deadline begins when there is room
		s.settle(t, a)                                                 //nolint:contextcheck // giving back outlives the claim
		if a.Err == nil {
			return a, true
		}
		refused := !unanswered(a.Err)
		if refused && !t.unsure {
			return a, false
		}
		if refused || !sleep(ctx, t.backoff) || t.over(s.clock.Now()) || time.Since(begun) > s.opt.TTL {
			s.room.leave(&t.placed)
			s.giveBack(t, "the claim was not answered in time") //nolint:contextcheck // it outlives the claim
			return a, false
		}
	}
}

// patience is how long a host waits for a lock that is held. The first of those that look after the
// job polls, so that it starts soon where no hint comes; the next ones come when the lease would end;
// the others only see to it that no job depends on those few.
func patience(rank int, left time.Duration) time.Duration {
	const seldom = 10 * time.Second
	switch {
	case rank == 0 && left > 0:
		return min(max(left, firstBackoff), lastBackoff)
	case rank == 0:
		return lastBackoff
	case rank <= lookers:
		return max(left, lastBackoff)
	}
	return max(left, seldom)
}

// lookers is the last rank whose host looks after a job as closely as it can.
const lookers = 3

// freed has the jobs looked at whose ticks may wait for the lock that a run of a job has freed.
func (s *Scheduler) freed(job string) {
	tab := s.current()
	j, _ := tab.job(job)
	if _, _, ofHost := strings.Cut(job, "@"); j == nil && ofHost {
		return // another host's own lock
	}
	now := time.Now()
	if j != nil {
		s.tending.hinted(j.LockName(), now)
	}
	s.tending.poke(now, s.turnOf, func(name string) bool {
		other, _ := tab.job(name)
		return j == nil || other == nil || name == job || other.LockName() == j.LockName()
	})
}

// ended has a job looked at whose run has ended here, if it is on the list, or if its tick may be run
// again: there may be no other host.
func (s *Scheduler) ended(job string, outcome jobs.Outcome) {
	if outcome == jobs.Lost {
		s.lost(job)
	}
	s.tending.poke(time.Now(), func(int) time.Duration { return 0 }, func(name string) bool { return name == job })
}
