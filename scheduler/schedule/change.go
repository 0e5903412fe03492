package schedule

import (
	"slices"
	"time"
)

// A Change is a change of clocks that skips or repeats times of one spec.
type Change struct {
	At            time.Time // the first instant of the new offset, in UTC
	Zone          string    // whose clocks they are
	Before, After time.Duration

	// Spec is one of [Schedule.Specs]; "" if no time of the schedule's is skipped or repeated.
	Spec string
	// Fixed tells that the spec's times are fixed, so that Tick is the one that is run for all that
	// are skipped, or the first pass of the first that is repeated. Else the spec follows elapsed
	// time, and Tick is zero.
	Fixed bool
	Tick  time.Time
}

// Changes lists the changes of clocks in [from, until) in the zones of the schedule, by time: one entry
// for each spec of which times are skipped or repeated, else one for the zone. Calendar changes, which do
// neither, are left out. It is empty for a nil Schedule.
func (s *Schedule) Changes(from, until time.Time) []Change {
	if s == nil {
		return nil
	}
	var out []Change
	for i := range s.rules {
		r := &s.rules[i]
		if r.zone == nil || r.every > 0 {
			continue
		}
		for x := secondAfter(from.Add(-1)); x < until.Unix(); x = r.zone.at(x).end {
			c := r.changeAt(x)
			if c.At.IsZero() {
				continue
			}
			if c.Spec != "" {
				c.Spec = s.specs[i]
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return a.At.Compare(b.At) })
	named := func(c Change, spec bool) bool {
		return slices.ContainsFunc(out, func(o Change) bool { return o.At.Equal(c.At) && o.Zone == c.Zone && (o.Spec != "") == spec })
	}
	seen := map[Change]bool{}
	return slices.DeleteFunc(out, func(c Change) bool {
		twice := seen[c] || c.Spec == "" && named(c, true)
		seen[c] = true
		return twice
	})
}

// changeAt is the change with which the period that holds x begins, as one spec meets it. Its At is zero
// if the clock only went on there.
func (r *rule) changeAt(x int64) Change {
	p := r.zone.at(x)
	first := p.start + p.offset
	if p.start != x || p.reached == first {
		return Change{}
	}
	c := Change{
		At: instant(p.start, true), Zone: r.zone.location.String(),
		Before: time.Duration(p.reached-p.start) * time.Second, After: time.Duration(p.offset) * time.Second,
	}
	from, until := min(first, p.reached), max(first, p.reached)
	local := r.fields.next(from)
	if local >= until {
		return c
	}
	c.Spec, c.Fixed = "it", r.fixed // the caller knows its name
	switch {
	case !r.fixed:
	case first > p.reached:
		w := cursor{rule: r}
		tick, ok := w.from(p.start)
		c.Tick = instant(tick, ok)
	default:
		c.Tick = instant(local-(p.reached-p.start), true)
	}
	return c
}
