package schedule

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"
)

// maxSpecs bounds the work of one Next: each spec is asked for its own next tick.
const maxSpecs = 100

// A Schedule is a rule that yields ticks. It is made by [Parse], never changes, and is safe for
// concurrent use. A nil Schedule is valid and has no ticks.
type Schedule struct {
	zone     string
	location *time.Location
	specs    []string
	warnings []string
	rules    []rule
}

// Parse reads specs whose times are in the named zone, unless a spec names its own.
//
// The zone is a name of the IANA database, such as "Europe/Berlin" or "UTC", in its exact
// spelling. Refused are "" and "Local" (hosts of a fleet may disagree on it) and offsets such as
// "+05:30".
//
// The error joins all faults of all specs. Each is a [*SyntaxError]; one that matches
// [ErrNeverFires] was well formed and names no instant that ever comes.
func Parse(zone string, specs ...string) (*Schedule, error) {
	p := &parser{index: -1, zones: map[string]*zoneTable{}}
	table := p.loadZone(zone)
	switch {
	case len(specs) == 0:
		p.fault("", "no schedule: at least one spec is needed")
	case len(specs) > maxSpecs:
		p.fault("", "%d specs are above the limit of %d", len(specs), maxSpecs)
		specs = nil
	}
	s := &Schedule{zone: zone}
	for i, spec := range specs {
		text, r := p.parse(i, spec, zone, table)
		if slices.Contains(s.specs, text) {
			p.warnf("listed more than once")
		}
		s.specs = append(s.specs, text)
		s.rules = append(s.rules, r)
	}
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	s.location, s.warnings = table.location, p.warnings
	return s, nil
}

// Next returns the first tick strictly after the given instant, in UTC. It is false when there is
// none up to the year 9999.
//
// Next does not allocate. Dense or sparse, a tick takes well under a microsecond to find between
// 2020 and 2050, and a few microseconds elsewhere.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	if s == nil {
		return time.Time{}, false
	}
	x := secondAfter(after)
	best, found := int64(0), false
	for i := range s.rules {
		c := cursor{rule: &s.rules[i]}
		if t, ok := c.from(x); ok && (!found || t < best) {
			best, found = t, true
		}
	}
	return instant(best, found), found
}

// Prev returns the last tick strictly before the given instant, in UTC. It is false when there is
// none from the year 1 on. It costs what [Schedule.Next] costs.
func (s *Schedule) Prev(before time.Time) (time.Time, bool) {
	if s == nil {
		return time.Time{}, false
	}
	y := secondBefore(before)
	best, found := int64(0), false
	for i := range s.rules {
		c := cursor{rule: &s.rules[i]}
		if t, ok := c.upTo(y); ok && (!found || t > best) {
			best, found = t, true
		}
	}
	return instant(best, found), found
}

// All yields the ticks strictly after the given instant, in order, without end up to the year
// 9999. It yields what repeated calls of [Schedule.Next] return, faster: it remembers per spec
// the tick that comes next and the stretch between two clock changes that it lies in.
func (s *Schedule) All(after time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if s == nil {
			return
		}
		cursors := make([]cursor, len(s.rules))
		for i := range cursors {
			cursors[i].rule = &s.rules[i]
			cursors[i].seek(secondAfter(after))
		}
		for {
			// A spec that has run out holds never, which sorts after every tick.
			best := never
			for i := range cursors {
				best = min(best, cursors[i].tick)
			}
			if best == never || !yield(instant(best, true)) {
				return
			}
			for i := range cursors {
				if cursors[i].tick == best {
					cursors[i].seek(best + 1)
				}
			}
		}
	}
}

// Location is the zone that Parse was given, for showing ticks in local time; UTC for a nil
// Schedule. A spec with a zone of its own ticks by that one.
func (s *Schedule) Location() *time.Location {
	if s == nil {
		return time.UTC
	}
	return s.location
}

// Zone is the zone's name as given to Parse; "" for a nil Schedule.
func (s *Schedule) Zone() string {
	if s == nil {
		return ""
	}
	return s.zone
}

// Specs are the specs in the order given, each with single spaces between its fields, so that two
// tables that differ only in blanks compare equal. The caller owns the slice.
func (s *Schedule) Specs() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.specs)
}

// Warnings says what is valid in the specs and often not what was meant: one sentence each, led by
// the quoted spec. The caller owns the slice.
func (s *Schedule) Warnings() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.warnings)
}

// String is for logs: the specs and the zone.
func (s *Schedule) String() string {
	if s == nil {
		return "no schedule"
	}
	return strings.Join(s.specs, "; ") + " (" + s.zone + ")"
}

// secondAfter is the first whole second strictly after t. Unix rounds towards the past.
func secondAfter(t time.Time) int64 {
	return min(t.Unix(), maxTick) + 1
}

// secondBefore is the last whole second strictly before t.
func secondBefore(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix()
	}
	return max(t.Unix(), minTick) - 1
}

func instant(seconds int64, ok bool) time.Time {
	if !ok {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
