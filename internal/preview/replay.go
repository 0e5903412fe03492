package preview

import (
	"cmp"
	"context"
	"slices"
	"time"

	"rota/scheduler"
)

// replay is one pass over a window. One goroutine decides; it alone touches all of this.
type replay struct {
	opt   *Options
	fleet *fleet
	dice  *dice
	stats *stats
	soon  agenda

	from, until int64
	step        time.Duration // what one rank is worth
	inOrder     bool          // no host can overtake one that comes before it

	// Of a trial: it ends after so many ticks, and says so. 0: there is no limit.
	most    int64
	tooMany bool

	tries []*try // to be used again
	runs  []*run
}

// try is one host's claim for a tick, or a tick that goes from host to host until one has a place.
type try struct {
	tick    tick
	entry   *entry
	host    int
	misfire bool // a claim that waits for the lock, and is never skipped
	owed    bool // of a job that is looked after
	placed  bool
	luck    luck

	order  []candidate // all of them; nil as long as the first is enough
	place  int         // which of them is next
	lined  []int       // hosts in whose lines it is
	flying bool        // one of them has claimed it
	kept   bool        // somebody else refers to it
}

// candidate is one host in the order of a race.
type candidate struct {
	host          int
	turn, arrival int64
}

// run is one run.
type run struct {
	entry     *entry
	host      int
	tick      int64
	begin     int64
	end, free int64 // when it ends, and when its lock is free
	asked     bool  // to end
	placed    bool
	locked    bool // it holds the lock itself
}

func newReplay(opt *Options) *replay {
	r := &replay{
		opt: opt, dice: newDice(opt), from: opt.From.UnixNano(), until: opt.From.Add(opt.For).UnixNano(),
		step: scheduler.Step(opt.Latency.P99),
	}
	r.stats = newStats(opt)
	r.fleet = spreadOut(opt, r.stats)
	slowest := r.dice.latency[len(r.dice.latency)-1]
	r.inOrder = 2*r.dice.skew+2*slowest < int64(r.step)
	return r
}

// run replays the window. progress hears the share that is done.
func (r *replay) run(ctx context.Context, progress func(float64)) error {
	const every = 16 // batches
	n := 0
	for batch := range r.fleet.stream(ctx, r.opt.From, r.opt.From.Add(r.opt.For)) {
		for i := range batch {
			t := &batch[i]
			r.passUpTo(t.at)
			r.due(t)
		}
		if n++; n%every == 0 {
			progress(float64(batch[len(batch)-1].at-r.from) / float64(r.until-r.from))
		}
		if r.most > 0 && r.stats.ticks > r.most {
			r.tooMany = true
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.passUpTo(r.until)
	for r.soon.claims > 0 { // what was due just before the end is decided yet
		if e := r.soon.next(); e.kind != atLook && e.kind != atDeadline {
			r.happen(&e)
		}
	}
	r.close()
	return nil
}

// passUpTo lets everything happen that comes before an instant.
func (r *replay) passUpTo(at int64) {
	for len(r.soon.events) > 0 && r.soon.events[0].at < at {
		e := r.soon.next()
		r.happen(&e)
	}
}

func (r *replay) happen(e *event) {
	switch e.kind {
	case atTurn:
		r.turn(e.try, e.at)
	case atClaim:
		r.decide(e.try, e.at)
	case atDeadline:
		r.shutOut(e.try, e.at)
	case atReply:
		r.leave(int(e.host), e.at)
	case atEnd:
		if e.at == e.run.free { // else it was moved
			r.end(e.run, e.at)
		}
	case atLook:
		r.look(e.entry, int(e.host), e.placed, e.at)
	}
}

// due begins the race for a tick.
func (r *replay) due(t *tick) {
	e := &r.fleet.entries[t.entry]
	r.stats.due(e, t)
	if t.first < 0 {
		r.stats.missed(e, t, &e.stat.Misses.NoHost)
		return
	}
	e.newest = *t
	e.open = append(e.open, *t)
	y := r.newTry(e, t)
	y.luck = r.dice.of(e, t.tick, 0)
	if r.inOrder || len(e.may) == 1 {
		y.host = int(t.first)
		r.turn(y, t.at)
		return
	}
	r.line(y)
	r.soon.add(event{at: y.order[0].turn, kind: atTurn, try: y})
}

// line puts the hosts in the order in which their claims arrive.
func (r *replay) line(y *try) {
	e, t := y.entry, &y.tick
	add := func(rank, host int) {
		c := candidate{host: host, turn: t.at + int64(scheduler.Turn(rank, r.step, y.luck.jitter())) + y.luck.skew()}
		c.arrival = c.turn + y.luck.trip()/2
		if rank > 0 {
			c.arrival += y.luck.trip() // it looks first
		}
		if c.arrival < t.at {
			c.arrival = t.at + y.luck.trip() // early: it is told to wait
		}
		c.turn = max(c.turn, t.at)
		y.order = append(y.order, c)
	}
	for k, host := range e.ranked(time.Unix(t.tick, 0)) {
		add(k, host)
	}
	slices.SortStableFunc(y.order, func(a, b candidate) int { return cmp.Compare(a.arrival, b.arrival) })
}

// turn is when a host may claim: it does if it has a place, else the tick waits in its line too.
func (r *replay) turn(y *try, now int64) {
	e, t := y.entry, &y.tick
	if t.tick <= e.cursor {
		r.done(y)
		return
	}
	at := t.at
	if y.order != nil {
		y.host, at = y.order[y.place].host, max(now, y.order[y.place].arrival)
	} else if at += y.luck.skew() + y.luck.trip()/2; at < t.at {
		at = t.at + y.luck.trip() // early: it is told to wait
	}
	if r.enter(y) {
		r.soon.add(event{at: at, kind: atClaim, try: y})
		return
	}
	r.fleet.hosts[y.host].stat.Full++
	y.kept = true
	if y.order == nil {
		first := y.host
		r.line(y)
		at := slices.IndexFunc(y.order, func(c candidate) bool { return c.host == first })
		y.order[0], y.order[at] = y.order[at], y.order[0]
	}
	if len(y.lined) == 0 {
		r.soon.add(event{at: t.deadline + int64(time.Millisecond), kind: atDeadline, try: y})
		if i := slices.IndexFunc(e.open, func(o tick) bool { return o.tick == t.tick }); i >= 0 {
			e.open[i].lined = true
		}
	}
	y.lined = append(y.lined, y.host)
	h := &r.fleet.hosts[y.host]
	h.line = append(h.line, arrival{try: y})
	if y.place++; y.place < len(y.order) {
		r.soon.add(event{at: max(now, y.order[y.place].turn), kind: atTurn, try: y})
	}
}

func (r *replay) newTry(e *entry, t *tick) *try {
	if n := len(r.tries); n > 0 {
		y := r.tries[n-1]
		r.tries = r.tries[:n-1]
		y.tick, y.entry = *t, e
		return y
	}
	return &try{tick: *t, entry: e}
}

// done is for a try that nobody needs any more.
func (r *replay) done(y *try) {
	if !y.kept {
		*y = try{}
		r.tries = append(r.tries, y)
	}
}
