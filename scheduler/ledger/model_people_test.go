package ledger

import (
	"fmt"
	"time"
)

// policy is one job as one table has it.
type policy struct {
	overlap, misfire, onCrash string
	lock, hash, definition    string
	every                     time.Duration
}

func (p policy) String() string {
	return fmt.Sprintf("overlap %s, misfire %s, on_crash %s, lock %s, every %v", p.overlap, p.misfire, p.onCrash, p.lock, p.every)
}

// edit makes the new table's version of a job.
func (w *world) edit(p policy) policy {
	p.definition = "d2"
	if w.chance(0.3) {
		p.overlap = []string{"skip", "queue", "replace", "allow"}[w.rng.IntN(4)]
	}
	if w.chance(0.3) {
		p.misfire = []string{"skip", "once", "all"}[w.rng.IntN(3)]
	}
	if w.chance(0.2) {
		p.onCrash = []string{"skip", "rerun"}[w.rng.IntN(2)]
	}
	if w.chance(0.2) {
		p.lock = "renamed"
	}
	if w.chance(0.2) {
		p.hash = "s2"
		if w.chance(0.5) {
			p.every = 2 * modelGap
		}
	}
	return p
}

// people pause, drain, trigger, flush and deploy.
type people struct {
	paused  []span
	asked   map[string]time.Duration // manual requests, by id
	drained map[string]bool
	flushes []time.Duration
	edits   []time.Duration // when a host loaded a table
	awayTo  time.Duration   // Redis gets no requests until then
}

type span struct{ from, until time.Duration }

func (p *people) live(w *world) {
	p.asked, p.drained = map[string]time.Duration{}, map[string]bool{}
	within := func(chance float64, do func()) {
		if w.chance(chance) {
			w.after(w.upTo(modelFaults), do)
		}
	}
	for range 3 {
		within(0.4, func() { w.ask() })
	}
	within(0.25, func() {
		from := w.now
		w.pause(from, 1<<62)
		w.after(w.upTo(4*modelGap), func() { w.pause(from, w.now) })
	})
	within(0.2, func() { w.flush() })
	within(0.4, func() { w.awayTo = w.now + w.upTo(7*modelGap) })
	within(0.25, func() {
		h := w.hosts[w.rng.IntN(3)]
		w.drain(h, true)
		w.after(w.upTo(3*modelGap), func() { w.drain(h, false) })
	})
	if w.chance(0.5) {
		at := w.upTo(modelFaults)
		for _, h := range w.hosts {
			at += w.upTo(modelGap)
			w.after(at, func() { h.restart(w.edited) })
		}
	}
	for _, h := range w.hosts {
		for range 2 {
			within(0.4, func() { h.crash() })
			within(0.3, func() { h.hang(w.upTo(2 * modelTTL)) })
			within(0.4, func() { h.deafTo = w.now + w.upTo(3*modelTTL) })
		}
	}
}

func (w *world) ask() {
	w.redis.SetTime(w.time())
	id, err := w.led.Ask(w.t.Context(), Request{Job: "j", Who: "somebody", Force: w.chance(0.3)})
	if err != nil {
		w.fault("Ask() = %v", err)
	}
	w.trace("asked for a run: %s", id)
	w.asked[id] = w.now
}

// pause does what `rota pause` and `rota resume` do to the record.
func (w *world) pause(from, until time.Duration) {
	w.redis.SetTime(w.time())
	ms := func(d time.Duration) int64 { return w.epoch.Add(d).UnixMilli() }
	fields := []any{"pause_from", ms(from)}
	if until < 1<<62 {
		if len(w.paused) == 0 {
			return // it was flushed away
		}
		fields = append(fields, "pause_until", ms(until))
		w.paused[len(w.paused)-1].until = until
	} else {
		w.client.HDel(w.t.Context(), "{m}:job:j", "pause_until")
		w.paused = append(w.paused, span{from, until})
	}
	w.trace("paused from %v until %v", from, until)
	w.client.HSet(w.t.Context(), "{m}:job:j", fields...)
}

func (w *world) drain(h *daemon, on bool) {
	w.redis.SetTime(w.time())
	w.trace("drain %s: %v", h.name, on)
	w.drained[h.name] = on
	if on {
		w.client.HSet(w.t.Context(), "{m}:drain", h.name, "1")
	} else {
		w.client.HDel(w.t.Context(), "{m}:drain", h.name)
	}
}

func (w *world) flush() {
	w.trace("flush")
	w.seen["flush"]++
	w.redis.FlushAll()
	w.flushes = append(w.flushes, w.now)
	w.asked, w.drained, w.paused = map[string]time.Duration{}, map[string]bool{}, nil
	w.forget()
}
