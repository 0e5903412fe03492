package preview

import (
	"slices"
	"time"

	"rota/scheduler"
)

// decide is what Redis does with a claim: the order of the questions is that of claim.lua.
func (r *replay) decide(y *try, now int64) {
	e, t := y.entry, &y.tick
	waited := e.waiting.tick != 0 && e.waiting.tick == t.tick
	if t.tick <= e.cursor && !waited {
		r.notWon(y, now)
		return
	}
	if !waited {
		if len(e.open) > 0 && e.open[0].tick < t.tick && e.plan.Misfire == scheduler.MisfireAll {
			r.careFor(e, t.entry, y.host, now) // behind: older ones first
			r.notWon(y, now)
			return
		}
		r.pass(e, t.tick)
	}
	if !waited && t.deadline > 0 && millis(now) > millis(t.deadline) {
		if catchesUp(e) {
			r.careFor(e, t.entry, y.host, now)
		} else {
			r.miss(e, t)
		}
		r.notWon(y, now)
		return
	}
	if !waited || e.lock.holder == nil {
		e.lock.stat.claim(t.at, r.stats)
	}
	if r.held(y, waited, now) {
		r.notWon(y, now)
		return
	}
	r.won(y, waited, now)
}

// held decides on a tick that cannot run because another run goes on. False: it can.
func (r *replay) held(y *try, waited bool, now int64) bool {
	e, t, l := y.entry, &y.tick, y.entry.lock
	holder := l.holder
	if e.plan.Overlap == scheduler.OverlapAllow {
		if holder = l.leaseOf(t.tick); holder == nil && e.going < e.plan.Parallel() {
			return false
		}
	} else if holder == nil {
		return false
	}
	if holder != nil && !waited {
		l.stat.heldBy(e, holder.entry, t.at, r.stats)
	}
	queues := holder != nil && (e.plan.Overlap == scheduler.OverlapQueue || e.plan.Overlap == scheduler.OverlapReplace)
	switch {
	case y.misfire || waited:
		r.await(e, t.entry, y.host)
	case queues:
		if e.waiting.tick != 0 {
			r.skip(e, &e.waiting, &e.stat.Skips.Superseded)
		}
		e.waiting = *t
		e.decided(t.tick)
		r.await(e, t.entry, y.host)
		if e.plan.Overlap == scheduler.OverlapReplace && e.run == holder {
			r.replace(holder, y, now)
		}
	default:
		why := &e.stat.Skips.Other
		switch {
		case holder == nil:
			why = &e.stat.Skips.Parallel
		case holder.entry == e:
			why = &e.stat.Skips.Own
		}
		r.skip(e, t, why)
		e.decided(t.tick)
	}
	return true
}

// won starts a run.
func (r *replay) won(y *try, waited bool, now int64) {
	e, t, l := y.entry, &y.tick, y.entry.lock
	if w := &e.waiting; w.tick != 0 && w.tick <= t.tick {
		if w.tick < t.tick {
			r.skip(e, w, &e.stat.Skips.Superseded)
		}
		e.waiting = tick{}
		if !catchesUp(e) {
			e.carers = e.carers[:0]
			l.forget(t.entry, 0)
		}
	}
	e.decided(t.tick)
	u := r.newRun()
	*u = run{entry: e, host: y.host, tick: t.tick, begin: now + y.luck.trip()/2, placed: y.placed}
	took := y.luck.of(e.durations)
	if e.timeout > 0 && took > e.timeout {
		took = min(took, e.timeout+e.grace)
		e.stat.TimedOut++
	}
	u.end = u.begin + took
	u.free = u.end + y.luck.trip()/2
	if e.plan.Overlap == scheduler.OverlapAllow {
		if l.shared {
			l.leases = append(l.leases, u)
		}
	} else {
		u.locked = true
		l.holder, l.since = u, now
	}
	e.run = u
	if e.going++; e.going == 1 {
		e.busySince = u.begin
	}
	h := &r.fleet.hosts[y.host]
	h.runs++
	h.stat.Most = max(h.stat.Most, h.runs)
	h.stat.Wins++
	deadline := t.deadline
	if t.lateClaim {
		deadline = t.was
	}
	r.stats.ran(e, t, u, now, millis(now) > millis(deadline), waited)
	r.soon.add(event{at: u.free, kind: atEnd, run: u})
	r.done(y)
}

// end frees what a run had. Whoever waits for the lock hears of it, and looks.
func (r *replay) end(u *run, now int64) {
	e, l := u.entry, u.entry.lock
	r.stats.ended(u, now)
	e.going--
	if e.going == 0 {
		r.stats.busy(e, e.busySince, u.end)
	}
	if e.run == u {
		e.run = nil
	}
	if u.locked {
		l.holder = nil
		l.stat.busyFor(l.since, now, r.stats)
	} else if i := slices.Index(l.leases, u); i >= 0 {
		l.leases = slices.Delete(l.leases, i, i+1)
	}
	h := &r.fleet.hosts[u.host]
	h.runs--
	for _, i := range l.waiting {
		w := &r.fleet.entries[i]
		luck := r.dice.of(w, now, 1)
		for _, host := range w.carers {
			r.soon.add(event{at: now + luck.trip(), kind: atLook, entry: i, host: int32(host)})
		}
	}
	if catchesUp(e) && len(e.open) > 0 && slices.Contains(e.carers, u.host) && !slices.Contains(l.waiting, r.indexOf(e)) {
		r.soon.add(event{at: now, kind: atLook, entry: r.indexOf(e), host: int32(u.host)})
	}
	if u.placed {
		r.leave(u.host, now)
	}
	*u = run{free: -1}
	r.runs = append(r.runs, u)
}

// replace asks a run to end.
func (r *replay) replace(u *run, y *try, now int64) {
	if u.asked {
		return
	}
	u.asked = true
	heard := now + y.luck.trip()
	if u.host != y.host {
		heard += y.luck.trip() // by way of a hint
	}
	if end := max(heard, u.begin) + u.entry.grace; end < u.end {
		u.end, u.free = end, end+y.luck.trip()/2
		u.entry.stat.Replaced++
		r.soon.add(event{at: u.free, kind: atEnd, run: u})
	}
}

// lookAgain is how soon a host looks again at a job that owes more.
const lookAgain = int64(time.Second)

// notWon ends a try. Its place is free when the host has the answer.
func (r *replay) notWon(y *try, now int64) {
	if y.placed {
		r.soon.add(event{at: now + y.luck.trip()/2, kind: atReply, host: int32(y.host)})
	}
	if e := y.entry; y.owed && catchesUp(e) && len(e.open) > 0 && !slices.Contains(e.lock.waiting, y.tick.entry) {
		r.soon.add(event{at: now + lookAgain, kind: atLook, entry: y.tick.entry, host: int32(y.host)})
	}
	r.done(y)
}

// pass counts as missed what is still open before a tick.
func (r *replay) pass(e *entry, before int64) {
	for i := range e.open {
		o := &e.open[i]
		if o.tick >= before {
			break
		}
		why := &e.stat.Misses.Deadline
		if o.lined {
			why = &e.stat.Misses.Full
		}
		r.stats.missed(e, o, why)
	}
	e.decided(before - 1)
}

// miss counts a tick as missed.
func (r *replay) miss(e *entry, t *tick) {
	why := &e.stat.Misses.Deadline
	if i := slices.IndexFunc(e.open, func(o tick) bool { return o.tick == t.tick }); i >= 0 && e.open[i].lined {
		why = &e.stat.Misses.Full
	}
	r.stats.missed(e, t, why)
	e.decided(t.tick)
}

func (r *replay) skip(e *entry, t *tick, why *int64) { r.stats.skipped(e, t, why) }

// decided moves the cursor.
func (e *entry) decided(tick int64) {
	e.cursor = max(e.cursor, tick)
	n := 0
	for n < len(e.open) && e.open[n].tick <= tick {
		n++
	}
	if n == len(e.open) {
		e.open = e.open[:0]
	} else {
		e.open = slices.Delete(e.open, 0, n)
	}
}

// leaseOf is the run of an "allow" job that holds the lease for a tick. Two jobs that share a lock meet there.
func (l *lock) leaseOf(tick int64) *run {
	for _, u := range l.leases {
		if u.tick == tick {
			return u
		}
	}
	return nil
}

func (r *replay) indexOf(e *entry) int32 { return e.newest.entry }

func (r *replay) newRun() *run {
	if n := len(r.runs); n > 0 {
		u := r.runs[n-1]
		r.runs = r.runs[:n-1]
		return u
	}
	return &run{}
}

func catchesUp(e *entry) bool {
	return e.plan.Misfire == scheduler.MisfireOnce || e.plan.Misfire == scheduler.MisfireAll
}

// millis is how scripts know an instant.
func millis(at int64) int64 { return at / int64(time.Millisecond) }
