package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checks is what the model knows to be true, against which the ledger is held.
type checks struct {
	faults []string
	seen   map[string]int // what happened, how often

	granted   map[string]grantSeen     // by run: what Redis last granted it
	highest   map[string]int64         // by lock: the highest token ever
	started_  map[string][]*execution  // by job and tick, in the order of their starts
	byRun     map[string]*execution    //
	reported  map[string]string        // by run: an outcome that Redis has taken
	abandoned map[string]bool          // by run: given back
	cursor    map[string]time.Time     // by job: the newest seen in the record
	waiting   map[string]int64         // by job: the tick that waits, in ms; 0: none
	created   map[string]time.Duration // by job: when its record came to be
	loads     map[string]time.Time     // by schedule hash: when the first host loaded it
}

type grantSeen struct {
	fence int64
	at    time.Duration
	known time.Time // what the claimant knew decided
	found Found
}

// execution is a run that a host really started.
type execution struct {
	run        *run
	host       string
	start, end time.Duration
}

func newChecks() checks {
	return checks{
		seen: map[string]int{}, granted: map[string]grantSeen{}, highest: map[string]int64{}, started_: map[string][]*execution{},
		byRun: map[string]*execution{}, reported: map[string]string{}, abandoned: map[string]bool{}, cursor: map[string]time.Time{}, waiting: map[string]int64{},
		created: map[string]time.Duration{}, loads: map[string]time.Time{},
	}
}

func (w *world) fault(format string, args ...any) {
	f := fmt.Sprintf("%.3fs: %s", w.now.Seconds(), fmt.Sprintf(format, args...))
	w.trace("FAULT %s", f)
	w.faults = append(w.faults, f)
}

func of(job string, tick time.Time) string { return fmt.Sprintf("%s %s", job, tick.Format("15:04:05")) }

// forget is what a flush makes of what was known of the record.
func (w *world) forget() {
	clear(w.cursor)
	clear(w.waiting)
	clear(w.created)
	clear(w.reported)
	clear(w.abandoned)
}

// claimed checks one decision at the moment that Redis takes it.
func (w *world) claimed(c *Claim, d Decision) {
	w.trace("redis: %s claims %s tick %s as %s: %s %s %s (fence %d, holder %s %s)", c.Host, c.Run, w.since(c.Tick), c.Kind, d.Answer, d.Decided, d.Found, d.Fence, d.Holder, d.HolderRun)
	if d.Err != nil {
		w.fault("Claim(%s) = %v", c.Run, d.Err)
		return
	}
	w.seen[string(d.Answer)]++
	if t := w.loads[c.ScheduleHash]; t.IsZero() || c.Since.Before(t) {
		w.loads[c.ScheduleHash] = c.Since
	}
	if c.Kind == Misfire && d.Decided == "skipped" {
		w.fault("the catch-up %s did not wait for its turn", c.Run)
	}
	if d.Answer == Won {
		w.won(c, d)
	} else if v, _ := w.redis.Get(w.led.LeaseKey(cmp.Or(c.Lease, c.Lock))); strings.HasPrefix(v, c.Token.Reveal()+"|") {
		w.fault("%s holds its lease, and was told %q when it asked again", c.Run, d.Answer)
	}
	before := w.cursor[c.Job]
	w.inspect()
	if at := w.cursor[c.Job]; c.Kind == Manual && !at.Equal(before) && !at.Equal(c.Known) {
		w.fault("the manual run %s moved the cursor from %s to %s", c.Run, w.since(before), w.since(at))
	}
	if _, ok := w.created[c.Job]; !ok && !w.cursor[c.Job].IsZero() {
		w.created[c.Job] = w.now
	}
}

func (w *world) won(c *Claim, d Decision) {
	if w.abandoned[c.Run] || w.reported[c.Run] != "" {
		w.fault("%s was granted, and it had been given back, or its outcome reported: %q", c.Run, w.reported[c.Run])
	}
	before, replay := w.granted[c.Run]
	if replay && before.fence == d.Fence {
		return
	}
	// Tokens rise with every grant of a lock.
	if d.Fence <= w.highest[c.Lock] {
		w.fault("lock %s: token %d of %s is not above %d", c.Lock, d.Fence, c.Run, w.highest[c.Lock])
	}
	w.highest[c.Lock] = d.Fence
	w.granted[c.Run] = grantSeen{d.Fence, w.now, c.Known, d.Found}
	if replay {
		w.seen["granted anew"]++
		return
	}
	w.seen[string(d.Found)]++
	now := w.time()
	if c.Kind == Manual {
		w.seen["manual"]++
		asked, ok := w.asked[c.Request]
		if !ok {
			w.fault("%s was granted for request %s, which nobody made", c.Run, c.Request)
		}
		if late := w.now - asked - RequestPatience; late > time.Millisecond {
			w.fault("%s was granted %v after nobody waited for request %s any more", c.Run, late, c.Request)
		}
		return
	}
	if d.Found == "rerun" && c.OnCrash != "rerun" {
		w.fault("%s was granted a rerun, and its table wants none", c.Run)
	}
	if now.Before(c.Tick) {
		w.fault("%s was granted %v before its tick", c.Run, c.Tick.Sub(now))
	}
	if late := now.Sub(c.Deadline); !c.Deadline.IsZero() && late > time.Millisecond && d.Found != "wait" && d.Found != "rerun" {
		w.fault("%s was granted %v after its deadline", c.Run, late)
	}
	if w.drained[c.Host] {
		w.fault("%s was granted to a drained host", c.Run)
	}
	for _, p := range w.paused {
		// Redis has whole milliseconds: [from, until) of them.
		at, from, until := c.Tick.Sub(w.epoch), p.from.Truncate(time.Millisecond), p.until.Truncate(time.Millisecond)
		if c.Job == "j" && (from <= w.now && w.now < until || d.Found == "" && from <= at && at < until) {
			w.fault("%s was granted tick %s in spite of the pause from %v to %v", c.Run, w.since(c.Tick), p.from, p.until)
		}
	}
	// Nothing from before the job, or this version of its schedule.
	if !c.Tick.After(w.loads[c.ScheduleHash]) && d.Found == "" {
		w.fault("%s was granted tick %s, from before its schedule was loaded at %s", c.Run, w.since(c.Tick), w.since(w.loads[c.ScheduleHash]))
	}
	if d.Found == "" && !c.Tick.After(w.cursor[c.Job]) {
		w.fault("%s was granted tick %s, decided already: the cursor is at %s", c.Run, w.since(c.Tick), w.since(w.cursor[c.Job]))
	}
}

// started checks a run at the moment that its host begins it.
func (w *world) started(h *daemon, r *run) {
	c := &r.grant.Claim
	w.trace("%s starts %s tick %s", h.name, c.Run, w.since(c.Tick))
	e := &execution{run: r, host: h.name, start: w.now, end: 1 << 62}
	key := of(c.Job, c.Tick)
	if c.Kind == Manual {
		key = c.Request
	}
	again, remembered := w.granted[c.Run], 0
	for _, first := range w.started_[key] {
		if w.flushedBetween(w.granted[first.run.grant.Claim.Run].at, again.at) {
			// Redis forgot; the tick may run again if this host had not known it decided.
			if !again.known.Before(c.Tick) && again.found == "" {
				w.fault("%s ran twice although %s knew it decided: %s, %s", key, c.Host, first.run.grant.Claim.Run, c.Run)
			}
			continue
		}
		remembered++
		switch {
		case remembered > 1 || again.found != "rerun":
			w.fault("%s ran twice: %s, %s", key, first.run.grant.Claim.Run, c.Run)
		case first.end > w.now || r.grant.Fence <= first.run.grant.Fence:
			w.fault("%s ran again while its first run went on, or under no larger token: %s, %s", key, first.run.grant.Claim.Run, c.Run)
		}
	}
	together := 1
	for _, other := range w.byRun {
		o := &other.run.grant.Claim
		if other.end <= w.now || w.flushedBetween(w.granted[o.Run].at, w.granted[c.Run].at) {
			continue
		}
		if o.Lease == "" && c.Lease == "" && o.Lock == c.Lock {
			w.fault("two runs hold %s: %s, %s", c.Lock, o.Run, c.Run)
		}
		if o.Job == c.Job {
			together++
			if o.Lease == "" || c.Lease == "" && c.Kind != Manual {
				w.fault("two runs of %s at once: %s, %s", c.Job, o.Run, c.Run)
			}
		}
	}
	if together > c.MaxParallel && c.Kind != Manual && w.scheduledOnly() {
		w.fault("%d runs of %s at once, max_parallel is %d", together, c.Job, c.MaxParallel)
	}
	w.started_[key] = append(w.started_[key], e)
	w.byRun[c.Run] = e
}

// scheduledOnly tells whether no manual run goes on: those take no place of max_parallel.
func (w *world) scheduledOnly() bool {
	for _, e := range w.byRun {
		if e.run.grant.Claim.Kind == Manual && e.end > w.now {
			return false
		}
	}
	return true
}

func (w *world) flushedBetween(a, b time.Duration) bool {
	return slices.ContainsFunc(w.flushes, func(f time.Duration) bool { return min(a, b) <= f && f <= max(a, b) })
}

// dead notes that the last process of a run has ended.
func (w *world) dead(r *run) {
	if e := w.byRun[r.grant.Claim.Run]; !r.ended && e != nil {
		w.trace("%s is dead", r.grant.Claim.Run)
		r.ended, e.end = true, w.now
	}
}

// toldToEnd checks that only "replace" ends a run, and only an older one.
func (w *world) toldToEnd(r *run) {
	w.seen["replaced"]++
	c := &r.grant.Claim
	if w.jobs[c.Job].overlap != "replace" && w.edited[c.Job].overlap != "replace" {
		w.fault("%s was told to end, and no table says replace", c.Run)
	}
	if w.granted[c.Run].found != "rerun" && !w.cursor[c.Job].After(c.Tick) && c.Kind != Manual {
		w.fault("%s of tick %s was told to end, and there is no newer tick", c.Run, w.since(c.Tick))
	}
}

func (w *world) finished(r *run, outcome string) { w.reported[r.grant.Claim.Run] = outcome }

// inspect looks at the records after every script.
func (w *world) inspect() {
	for _, job := range []string{"j", "k"} {
		v := w.redis.HGet("{m}:job:"+job, "tick")
		if v == "" {
			continue
		}
		var ms int64
		if _, err := fmt.Sscan(v, &ms); err != nil {
			w.fault("the cursor of %s is %q", job, v)
		}
		at := time.UnixMilli(ms)
		if at.Before(w.cursor[job]) {
			w.fault("the cursor of %s went back from %s to %s", job, w.since(w.cursor[job]), w.since(at))
		}
		if at.After(w.time().Add(time.Second)) {
			w.fault("the cursor of %s is ahead of the clock: %s", job, w.since(at))
		}
		w.cursor[job] = at
		waiting, _ := strconv.ParseInt(w.redis.HGet("{m}:job:"+job, "wait_tick"), 10, 64)
		if waiting != 0 && waiting < w.waiting[job] {
			w.fault("the tick of %s that waits became an older one", job)
		}
		w.waiting[job] = waiting
	}
}
