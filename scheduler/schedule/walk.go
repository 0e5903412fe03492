package schedule

import (
	"math"
	"time"
)

const (
	// Ticks exist in the years that RFC 3339 can write.
	minTick int64 = -62135596800 // 0001-01-01T00:00:00Z
	maxTick int64 = 253402300799 // 9999-12-31T23:59:59Z

	// never lies outside every instant and every local second, far enough from the ends of int64
	// that offsets can be added to it.
	never int64 = math.MaxInt64 / 4

	// maxOffset is above the offset of every zone: local mean time in Manila was 15:56 behind.
	maxOffset = 16 * 60 * 60

	// settled is how far apart two instants must be for their local times to be in the same order
	// whatever the clock did in between: twice maxOffset, and a fold.
	settled = 2*maxOffset + 16*60*60

	// maxSteps ends a search. A spec all of whose times the clocks skip costs up to five steps a
	// year, so that this is a Gregorian cycle of 400 years; Parse refuses such a spec. Any other has
	// its tick within a handful of steps, since dates that do not match cost none.
	maxSteps = 2048
)

// A rule is one spec: an @every, or fields read in a zone.
type rule struct {
	every  int64 // seconds between two ticks; 0: the fields decide
	fields fields
	fixed  bool       // no wildcard minute or hour: see the package comment
	zone   *zoneTable // shared by the rules of one Schedule that name the same zone
}

// A cursor walks the ticks of one rule. The walk is made in local seconds and alternates between two
// questions: which local second matches next, and does this period of constant offset last
// until then? It remembers the period, since the next tick is mostly in the same one.
//
// Adding to a time.Time and looking at its fields again, as robfig/cron does, mixes the two, and
// then a midnight that does not exist moves the day of week.
//
// The zero cursor with a rule is ready. A cursor is not safe for concurrent use.
type cursor struct {
	rule   *rule
	period period
	tick   int64 // what seek found
	steps  int   // periods looked at so far, which bounds the time taken
}

// seek stores the first tick at or after x, or never.
func (c *cursor) seek(x int64) {
	c.tick = never
	if t, ok := c.from(x); ok {
		c.tick = t
	}
}

// from returns the first tick at or after x.
func (c *cursor) from(x int64) (int64, bool) {
	r := c.rule
	x = max(x, minTick)
	if r.every > 0 {
		t := -floorDiv(-x, r.every) * r.every
		return t, t <= maxTick
	}
	for range maxSteps {
		if x > maxTick {
			break
		}
		p := c.at(x)
		// Only from its first instant on is a period's own catching up still to come.
		if x == p.start && r.catchesUp(p) {
			return x, true
		}
		local := r.fields.next(max(x+p.offset, r.firstOf(p)))
		if t := local - p.offset; t < p.end {
			return t, t <= maxTick
		}
		// Nothing is left in this period, and nothing matches before local. Periods that end before
		// any zone can read local are passed over, unless one may repeat times before x.
		next := p.end
		if p.end-x >= settled {
			next = max(next, local-maxOffset)
		}
		x = next
	}
	return 0, false
}

// upTo returns the last tick at or before y. It mirrors from: of a period, first the times that
// match, then what it caught up when it began.
func (c *cursor) upTo(y int64) (int64, bool) {
	r := c.rule
	y = min(y, maxTick)
	if r.every > 0 {
		t := floorDiv(y, r.every) * r.every
		return t, t >= minTick
	}
	for range maxSteps {
		if y < minTick {
			break
		}
		p := c.at(y)
		local := r.fields.prev(y + p.offset)
		if local >= max(p.start+p.offset, r.firstOf(p)) {
			t := local - p.offset
			return t, t >= minTick
		}
		if r.catchesUp(p) {
			return p.start, true
		}
		prev := p.start - 1
		if y-p.start >= settled {
			prev = min(prev, local+maxOffset)
		}
		y = prev
	}
	return 0, false
}

func (c *cursor) at(x int64) *period {
	c.steps++
	if x < c.period.start || x >= c.period.end {
		c.period = c.rule.zone.at(x)
	}
	return &c.period
}

// firstOf is the local second from which the rule ticks in p. A fixed time that the clocks
// repeat had its turn before p began.
func (r *rule) firstOf(p *period) int64 {
	if r.fixed {
		return max(p.reached, p.start+p.offset)
	}
	return p.start + p.offset
}

// catchesUp reports whether p begins with a tick for fixed times that the clocks skipped. A time
// of the rule in the minute at which p begins stands for them, just as two missed minutes of
// ISC cron that become due in one minute are one run.
func (r *rule) catchesUp(p *period) bool {
	first := p.start + p.offset
	if !r.fixed || p.reached >= first || r.fields.next(p.reached) >= first {
		return false
	}
	minute := first - floorMod(first, 60) + 60
	return r.fields.next(first) >= min(minute, p.end+p.offset)
}

// neverFires reports whether no instant of a full Gregorian cycle is a tick, under the rules that the
// zone database expects to hold for ever. It knows no such rule that begins after 2100.
func (r *rule) neverFires() bool {
	start := time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)
	c := cursor{rule: r}
	t, ok := c.from(start.Unix())
	return !ok || t >= start.AddDate(400, 0, 0).Unix()
}

// floorDiv and floorMod round towards the past, also before 1970. The divisor is above zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 {
	return a - floorDiv(a, b)*b
}
