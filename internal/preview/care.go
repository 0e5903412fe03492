package preview

import (
	"slices"
	"time"

	"rota/scheduler"
)

// await has a host look after a tick that waits for the lock.
func (r *replay) await(e *entry, index int32, host int) {
	if !slices.Contains(e.carers, host) {
		e.carers = append(e.carers, host)
	}
	if !slices.Contains(e.lock.waiting, index) {
		e.lock.waiting = append(e.lock.waiting, index)
	}
}

// forget takes an entry from those that wait for the lock, unless hosts still look after it.
func (l *lock) forget(index int32, carers int) {
	if i := slices.Index(l.waiting, index); i >= 0 && carers == 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// careFor has a host look now at a job with ticks to be caught up.
func (r *replay) careFor(e *entry, index int32, host int, now int64) {
	if !slices.Contains(e.carers, host) {
		e.carers = append(e.carers, host)
	}
	r.soon.add(event{at: now, kind: atLook, entry: index, host: int32(host)})
}

// look claims what a job owes: the tick that waits for the lock, or one that nobody ran in time. placed:
// the host has a place for it.
func (r *replay) look(index int32, host int, placed bool, now int64) {
	e := &r.fleet.entries[index]
	t, misfire, again := r.owed(e, host, now)
	if t.tick == 0 {
		if placed {
			r.leave(host, now)
		}
		if again > now {
			r.soon.add(event{at: again, kind: atLook, entry: index, host: int32(host)})
		} else if i := slices.Index(e.carers, host); i >= 0 {
			e.carers = slices.Delete(e.carers, i, i+1)
			e.lock.forget(index, len(e.carers))
		}
		return
	}
	y := r.newTry(e, &t)
	y.luck, y.host = r.dice.of(e, now, 2+uint64(host)), host
	y.misfire, y.owed, y.placed = misfire, true, placed
	if !r.enter(y) {
		h := &r.fleet.hosts[host]
		if !slices.ContainsFunc(h.line, func(a arrival) bool { return a.try == nil && a.owes == index }) {
			h.line = append(h.line, arrival{owes: index})
		}
		r.done(y)
		return
	}
	r.soon.add(event{at: now + y.luck.trip() + y.luck.trip()/2, kind: atClaim, try: y})
}

// owed is the tick that a host claims for a job it looks after; its tick is 0 if there is none. Then again
// is when to look again; not above now: not at all.
func (r *replay) owed(e *entry, host int, now int64) (t tick, misfire bool, again int64) {
	if e.waiting.tick != 0 {
		return e.waiting, false, 0
	}
	if !catchesUp(e) || len(e.open) == 0 {
		e.owedFrom = 0
		return tick{}, false, 0
	}
	n := &e.newest
	all := e.plan.Misfire == scheduler.MisfireAll
	if n.tick <= e.cursor || now <= n.deadline && !all {
		return tick{}, false, 0 // it has a race of its own
	}
	rank := r.turnOf(e, host)
	if e.run != nil && e.plan.Overlap != scheduler.OverlapAllow {
		// The host of the run before goes on with it, unless it dies: its lease says when.
		return tick{}, false, now + int64(r.opt.TTL-r.opt.RenewEvery/2) + rank
	}
	if e.owedFrom == 0 {
		e.owedFrom = now
	}
	var gap, until time.Duration
	if n.next != 0 {
		gap = time.Duration(n.next-n.tick) * time.Second
		until = time.Duration(n.next*int64(time.Second) + e.delay - e.owedFrom)
	}
	if at := e.owedFrom + int64(scheduler.Spread(e.plan.Name, gap, until)) + rank; at > now {
		return tick{}, false, at
	}
	if all {
		r.trim(e)
		t = e.open[0]
	} else {
		t = *n
	}
	if now <= t.deadline {
		return t, false, 0
	}
	t.lateClaim, t.was, t.deadline = true, t.deadline, 0
	if !all && t.next != 0 {
		t.deadline = t.next*int64(time.Second) + e.delay
	}
	return t, true, 0
}

// trim leaves as many ticks open as are caught up at most.
func (r *replay) trim(e *entry) {
	if n := len(e.open) - scheduler.MostCaughtUp; n > 0 {
		r.pass(e, e.open[n].tick)
	}
}

// turnOf is how long a host leaves a job that is looked after to those before it.
func (r *replay) turnOf(e *entry, host int) int64 {
	rank := slices.Index(e.ranked(time.Time{}), host)
	luck := r.dice.of(e, int64(host), 3)
	return int64(scheduler.Turn(rank, r.step, luck.jitter()))
}

// enter takes a place for a try that needs one. False: it has to wait in line.
func (r *replay) enter(y *try) bool {
	if !y.entry.plan.Counts || y.placed {
		return true
	}
	h := &r.fleet.hosts[y.host]
	if h.free <= 0 || len(h.line) > 0 {
		return false
	}
	h.free--
	y.placed = true
	return true
}

// leave gives a place back, and to the first in line that is still wanted.
func (r *replay) leave(host int, now int64) {
	h := &r.fleet.hosts[host]
	h.free++
	for h.free > 0 && len(h.line) > 0 {
		a := h.line[0]
		h.line = slices.Delete(h.line, 0, 1)
		if a.try == nil {
			h.free--
			r.soon.add(event{at: now, kind: atLook, entry: a.owes, host: int32(host), placed: true})
			continue
		}
		y := a.try
		if y.tick.tick <= y.entry.cursor {
			continue // another host has it
		}
		h.free--
		y.flying = true
		own := r.newTry(y.entry, &y.tick)
		own.luck, own.host, own.placed = r.dice.of(y.entry, y.tick.tick, 4+uint64(host)), host, true
		r.soon.add(event{at: now + own.luck.trip() + own.luck.trip()/2, kind: atClaim, try: own})
	}
}

// shutOut is for a tick that may not start any more and is still in lines.
func (r *replay) shutOut(y *try, now int64) {
	e := y.entry
	for _, host := range y.lined {
		h := &r.fleet.hosts[host]
		h.line = slices.DeleteFunc(h.line, func(a arrival) bool { return a.try == y })
	}
	if y.tick.tick <= e.cursor || y.flying && !catchesUp(e) {
		return // its claim is under way, and says so
	}
	if !catchesUp(e) {
		r.pass(e, y.tick.tick)
		r.miss(e, &y.tick)
		return
	}
	for _, host := range y.lined {
		r.careFor(e, y.tick.entry, host, now)
	}
}
