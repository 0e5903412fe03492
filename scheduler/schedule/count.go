package schedule

import "time"

// Count counts the ticks in (after, until], limit at most, and returns the first and the last of
// those counted, in UTC. With n = 0 both are the zero time. It is for gaps that are recorded as a
// range.
//
// A single @every is arithmetic. Everything else is walked, at less than 0.1 µs a tick and spec.
func (s *Schedule) Count(after, until time.Time, limit int) (n int, first, last time.Time) {
	if s == nil || limit <= 0 {
		return 0, time.Time{}, time.Time{}
	}
	if len(s.rules) == 1 && s.rules[0].every > 0 {
		return countEvery(&s.rules[0], secondAfter(after), min(until.Unix(), maxTick), limit)
	}
	for tick := range s.All(after) {
		if tick.After(until) {
			break
		}
		if n++; n == 1 {
			first = tick
		}
		last = tick
		if n == limit {
			break
		}
	}
	return n, first, last
}

// countEvery counts in [from, until]. A year of seconds is as quick as an hour of them.
func countEvery(r *rule, from, until int64, limit int) (n int, first, last time.Time) {
	c := cursor{rule: r}
	t, ok := c.from(from)
	if !ok || t > until {
		return 0, time.Time{}, time.Time{}
	}
	more := min((until-t)/r.every, int64(limit)-1)
	return int(more) + 1, instant(t, true), instant(t+more*r.every, true)
}
