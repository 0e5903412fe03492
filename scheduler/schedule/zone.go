package schedule

import (
	"time"
	_ "time/tzdata" // a host may have no zone database
)

const (
	// maxShift is the largest clock change that is caught up and not repeated. Above it the
	// change corrects the calendar. The limit is ISC cron's (cron.c, case "other").
	maxShift = 3 * 60 * 60

	beginning = -never // of the first period
	ending    = never  // of the last one
)

// A period is a stretch of time in which a zone's offset from UTC does not change.
type period struct {
	start, end int64 // instants, in seconds since 1970: [start, end)
	offset     int64 // seconds east of UTC

	// reached is the local second that the clock showed when the period began, before it was
	// changed. Above start + offset the clock went back and repeats times, below it skipped some;
	// equal to it after a calendar change, which does neither.
	reached int64
}

// A zoneTable knows the periods of one zone. Those of the years in which ticks are mostly asked
// for are worked out beforehand; looking one up takes the time package about 0.1 µs a question.
type zoneTable struct {
	location *time.Location
	known    []period // without a hole between them
}

func newZoneTable(location *time.Location) *zoneTable {
	z := &zoneTable{location: location}
	x := time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2050, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	for x < until {
		p := z.lookup(x)
		if n := len(z.known); n > 0 && z.known[n-1].start == p.start {
			z.known[n-1].end = p.end
		} else {
			z.known = append(z.known, p)
		}
		x = p.end
	}
	return z
}

// at returns the period that holds x. Outside the known years it may end early, with a period of
// the same offset to follow.
func (z *zoneTable) at(x int64) period {
	low, high := 0, len(z.known)
	if x < z.known[0].start || x >= z.known[high-1].end {
		return z.lookup(x)
	}
	for high-low > 1 {
		middle := (low + high) / 2
		if x < z.known[middle].start {
			high = middle
		} else {
			low = middle
		}
	}
	return z.known[low]
}

// lookup asks the time package. Where a zone follows a rule, ZoneBounds also splits
// periods at the turn of the year; such a start is no clock change, so it goes on to
// the one before.
func (z *zoneTable) lookup(x int64) period {
	p := z.bounds(x)
	for p.start > beginning {
		before := z.bounds(p.start - 1)
		p.reached = p.start + before.offset
		if before.offset != p.offset {
			break
		}
		p.start = before.start
	}
	shift := p.start + p.offset - p.reached
	if p.start <= beginning || shift > maxShift || shift < -maxShift {
		p.reached = p.start + p.offset
	}
	return p
}

func (z *zoneTable) bounds(x int64) period {
	t := time.Unix(x, 0).In(z.location)
	_, offset := t.Zone()
	p := period{start: beginning, end: ending, offset: int64(offset)}
	from, until := t.ZoneBounds()
	if !from.IsZero() {
		p.start = min(from.Unix(), x)
	}
	if !until.IsZero() {
		p.end = until.Unix()
	}
	// Go 1.26 takes every year of a rule for 365 days long: on the last day of a leap year the end
	// it returns has passed. The true one is not before the next midnight.
	if p.end <= x {
		p.end = (floorDiv(x, secondsPerDay) + 1) * secondsPerDay
	}
	return p
}

// distinctOffsets are the zone's offsets in the known years.
func (z *zoneTable) distinctOffsets() map[int64]bool {
	offsets := map[int64]bool{}
	for _, p := range z.known {
		offsets[p.offset] = true
	}
	return offsets
}
