package scheduler

import (
	"time"

	"rota/scheduler/ledger"
)

// maxGap bounds how many ticks of a gap are counted. A walk of that many takes some 10 ms: until it
// is over the claim that asked for it does not get on. A job of every second has as many in a day.
const maxGap = 100_000

// countTicks counts a job's ticks for the ledger, which asks when it is about to record some that
// nobody ran.
func countTicks(j *Job) func(after, until time.Time) ledger.Ticks {
	return func(after, until time.Time) ledger.Ticks {
		n, first, last := j.Schedule.Count(after, until, maxGap)
		ticks := ledger.Ticks{N: n, First: first, Last: last}
		if newest, ok := j.Schedule.Prev(until.Add(1)); n == maxGap && ok && newest.After(last) {
			ticks.Last, ticks.More = newest, true
		}
		return ticks
	}
}

// tellUnrun says that a claim of this host recorded ticks that nobody ran.
func (s *Scheduler) tellUnrun(job string, t ledger.Ticks) {
	if t.N > 0 {
		s.log.Warn("ticks were not run", "job", job, "count", t.N, "more", t.More, "tick", t.First, "until", t.Last,
			"reason", "nobody claimed them in time, or a pause; rota history has which")
	}
}
