package ledger

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// daemon does what a scheduler does, as simply as can be: it claims each tick when its own
// clock says so, repeats what is not answered, holds what it won and reports how it ended.
// Twice a gap it looks at the record for what is left over.
type daemon struct {
	w     *world
	name  string
	table map[string]policy

	up     bool
	boots  int           // what belongs to an earlier start is dead
	hungTo time.Duration // the process stands still until then
	deafTo time.Duration // its requests arrive, no reply does, until then
	skew   time.Duration // of its clock against Redis'
	loaded time.Time     // when this start read the table, by Redis' clock
	known  map[string]time.Time
	floor  map[string]int64
	gave   map[string]time.Duration // when it last gave a tick of the job back
	tries  map[string]*try
	runs   map[string]*run
	seen   string // the newest request it looked at
	made   int
}

// try is one claim, sent until it is answered.
type try struct {
	claim    Claim
	until    time.Duration // given up then
	sent     time.Duration
	answered bool
	over     bool
}

func (h *daemon) boot(table map[string]policy) {
	w := h.w
	h.table, h.up, h.hungTo, h.seen = table, true, 0, "0"
	h.boots++
	h.skew = w.upTo(4*time.Second) - 2*time.Second
	h.loaded = w.time()
	w.edits = append(w.edits, w.now)
	h.known, h.floor, h.gave = map[string]time.Time{}, map[string]int64{}, map[string]time.Duration{}
	h.tries, h.runs = map[string]*try{}, map[string]*run{}
	w.trace("%s boots, skew %v, table %s", h.name, h.skew, table["j"])
	for _, job := range []string{"j", "k"} {
		h.await(job, h.clock())
	}
	h.timer(w.upTo(modelGap/2), h.look)
	h.timer(0, func() { // what is due at the start
		for _, job := range []string{"j", "k"} {
			h.try(job, h.grid(job).at(h.clock()), Scheduled)
		}
	})
}

func (h *daemon) clock() time.Time { return h.w.time().Add(h.skew) }

// timer does something later, unless the host has been started anew by then.
func (h *daemon) timer(d time.Duration, do func()) {
	boot := h.boots
	h.w.after(d, func() { h.awake(boot, do) })
}

// awake does something as soon as the host does not hang, unless it was started anew.
func (h *daemon) awake(boot int, do func()) {
	switch {
	case boot != h.boots || !h.up:
	case h.hungTo > h.w.now:
		h.w.after(h.hungTo-h.w.now, func() { h.awake(boot, do) })
	default:
		do()
	}
}

// crash ends the host and, as the warden sees to it, its runs.
func (h *daemon) crash() {
	if !h.up {
		return
	}
	h.w.trace("%s crashes", h.name)
	h.w.seen["crash"]++
	for _, r := range h.runs {
		h.w.dead(r)
	}
	h.up = false
	h.boots++
	h.w.after(h.w.upTo(3*modelGap), func() {
		if !h.up {
			h.boot(h.table)
		}
	})
}

// restart is a crash, and a start with another table at once.
func (h *daemon) restart(table map[string]policy) {
	h.table = table
	h.crash()
	h.boot(table)
}

// hang stops the process. Its runs go on until the warden ends them.
func (h *daemon) hang(d time.Duration) {
	h.w.trace("%s hangs for %v", h.name, d)
	h.hungTo = max(h.hungTo, h.w.now+d)
}

// grid is a schedule: an instant every so often.
type grid time.Duration

func (h *daemon) grid(job string) grid { return grid(h.table[job].every) }

func (g grid) at(t time.Time) time.Time { return t.Truncate(time.Duration(g)) }
func (g grid) count(after, until time.Time) (ticks Ticks) {
	for t := g.at(after).Add(time.Duration(g)); !t.After(until); t = t.Add(time.Duration(g)) {
		if ticks.N++; ticks.N == 1 {
			ticks.First = t
		}
		ticks.Last = t
	}
	return ticks
}

// await claims the next tick when the host's own clock says that it is due, or a little later.
func (h *daemon) await(job string, after time.Time) {
	tick := h.grid(job).at(after).Add(h.table[job].every)
	h.timer(tick.Sub(h.clock())+h.w.upTo(300*time.Millisecond), func() {
		h.try(job, tick, Scheduled)
		h.await(job, tick)
	})
}

func (h *daemon) try(job string, tick time.Time, kind Kind, change ...func(*Claim)) {
	w, p := h.w, h.table[job]
	key := fmt.Sprint(job, tick.UnixMilli(), kind == Manual)
	if t := h.tries[key]; t != nil && !t.over {
		return
	}
	h.made++
	every := p.every
	c := Claim{
		Job: job, Lock: p.lock, Kind: kind, Tick: tick, Prev: tick.Add(-every), Deadline: tick.Add(modelLate),
		Run: fmt.Sprintf("%s%d.%d", h.name, h.boots, h.made), Token: w.token(), Host: h.name,
		Definition: p.definition, ScheduleHash: p.hash, Since: h.loaded, TTL: modelTTL, Expire: 24 * time.Hour,
		Overlap: p.overlap, Misfire: p.misfire, OnCrash: p.onCrash, MaxParallel: 2, Index: -1, Count: grid(every).count,
	}
	t := &try{until: w.now + max(tick.Sub(h.clock())+modelLate, 2*modelTimeout)}
	switch {
	case kind == Manual:
		c.Deadline, c.Prev = time.Time{}, time.Time{}
		t.until = w.now + 5*time.Second
	case kind == Misfire:
		c.Deadline = tick.Add(every)
		if p.misfire == "all" {
			c.Deadline = time.Time{}
		}
		t.until = w.now + every
	}
	if p.misfire == "all" && kind != Manual {
		c.Back = grid(every).at(h.clock()).Add(-modelBack * every)
	}
	if p.overlap == "allow" {
		c.Lease = fmt.Sprintf("%s:%d", p.lock, tick.UnixMilli())
	}
	for _, f := range change {
		f(&c)
	}
	t.claim = c
	h.tries[key] = t
	h.send(t)
}

// send asks, and asks again while there is no answer.
func (h *daemon) send(t *try) {
	w := h.w
	c := &t.claim
	c.Known, c.Floor = h.known[c.Job], h.floor[c.Lock]
	t.sent, t.answered = w.now, false
	sent, claim := w.now, *c
	w.call(h, func() func() {
		before, _ := w.redis.Get(w.led.LeaseKey(cmp.Or(claim.Lease, claim.Lock)))
		d := w.led.Claim(w.t.Context(), []Claim{claim})[0]
		if d.Answer == Won && before != "" && !strings.HasPrefix(before, claim.Token.Reveal()+"|") {
			w.fault("%s was granted a lease that was another's: %s", claim.Run, before)
		}
		w.claimed(&claim, d)
		return func() {
			if !t.over && !t.answered && t.sent == sent {
				t.answered = true
				h.answer(t, d)
			}
		}
	})
	h.timer(modelTimeout, func() {
		switch {
		case t.over || t.answered || t.sent != sent:
		case w.now < t.until:
			h.send(t)
		default:
			t.over = true
			h.giveBack(claim, "unknown")
		}
	})
}

func (h *daemon) know(job string, tick time.Time) {
	if tick.After(h.known[job]) {
		h.known[job] = tick
	}
}

func (h *daemon) answer(t *try, d Decision) {
	w, c := h.w, &t.claim
	again := func(wait time.Duration) {
		if w.now+wait < t.until {
			h.timer(wait, func() { h.send(t) })
		} else {
			t.over = true
		}
	}
	switch d.Answer {
	case Won:
		t.over = true
		if c.Kind != Manual {
			h.know(c.Job, c.Tick)
		}
		h.floor[c.Lock] = max(h.floor[c.Lock], d.Fence)
		trust := t.sent + modelTTL - modelMargin
		if w.now >= trust || (!w.quiet && w.chance(0.1)) {
			h.giveBack(*c, "not used")
			return
		}
		h.start(&run{grant: Grant{Claim: *c, Fence: d.Fence, Found: d.Found, Won: d.Won}, trust: trust})
	case Early:
		again(d.Wait)
	case Held:
		if d.Decided != "" {
			t.over = true
			if c.Kind != Manual {
				h.know(c.Job, c.Tick)
			}
			return
		}
		again(min(max(d.Left, 50*time.Millisecond), time.Second))
	case Behind:
		t.over = true
		oldest := h.grid(c.Job).at(d.Base).Add(h.table[c.Job].every)
		if oldest.Before(c.Back) {
			oldest = c.Back
		}
		h.try(c.Job, oldest, Misfire)
	case Already:
		t.over = true
		if d.Base.Before(d.Now) {
			h.know(c.Job, d.Base)
		}
	case Late:
		t.over = true
		if d.Decided == "missed" {
			h.know(c.Job, c.Tick)
		}
	case Future:
		t.over = true
		delete(h.known, c.Job)
	default:
		t.over = true
	}
}

// look is what a host does with a heartbeat: requests, and what the record has left over.
func (h *daemon) look() {
	w := h.w
	h.timer(modelGap/2, h.look)
	if w.now < w.awayTo || !w.quiet && w.chance(0.2) {
		return
	}
	w.redis.SetTime(w.time())
	for _, m := range w.client.XRange(w.t.Context(), "{m}:requests", "("+h.seen, "+").Val() {
		q := Request{ID: m.ID, Force: m.Values["force"] == "1"}
		h.seen = q.ID
		h.try("j", q.Asked(), Manual, func(c *Claim) { c.Request, c.Force = q.ID, q.Force })
	}
	states, err := w.led.State(w.t.Context(), []string{"j", "k"})
	if err != nil {
		w.fault("State() = %v", err)
		return
	}
	for _, s := range states {
		p := h.table[s.Job]
		if !s.Waiting.IsZero() && !s.Running {
			h.try(s.Job, s.Waiting, Scheduled)
		}
		if !s.Open.IsZero() && w.now > h.gave[s.Job]+time.Second {
			h.try(s.Job, s.Open, Scheduled)
		}
		if p.onCrash == "rerun" && !s.Running && s.Last != nil && s.Last.Kind != Manual && (s.Last.Outcome == OutcomeLost || s.Last.Outcome == "interrupted") {
			h.try(s.Job, s.Last.Tick, Scheduled)
		}
		newest := h.grid(s.Job).at(h.clock())
		if newest.After(s.Cursor) && h.clock().After(newest.Add(modelLate)) && p.misfire != "skip" {
			h.try(s.Job, newest, Misfire)
		}
	}
}
