package scheduler

import (
	"time"

	"rota/scheduler/schedule"
)

// Expiry is how long what Redis keeps of a job with that schedule outlives its last touch at an
// instant: as long as the history goes back, but at least twice the gap to its next tick, and a day
// besides, for the touch that comes once a day. A nil schedule has no ticks.
func Expiry(rule *schedule.Schedule, maxAge time.Duration, now time.Time) time.Duration {
	next, ok := rule.Next(now)
	if !ok {
		return expiryOf(maxAge, 0)
	}
	from := now
	if prev, ok := rule.Prev(now.Add(1)); ok {
		from = prev
	}
	return expiryOf(maxAge, next.Sub(from))
}

func expiryOf(maxAge, gap time.Duration) time.Duration { return max(maxAge, 2*gap) + 24*time.Hour }

// expiry is that of a claim's keys. The gap that begins with a tick is in its Due; a manual run has
// none, and comes within one.
func (s *Scheduler) expiry(j *Job, d Due) time.Duration {
	if d.Next.IsZero() {
		return Expiry(j.Schedule, s.opt.MaxAge, d.Tick)
	}
	return expiryOf(s.opt.MaxAge, d.Next.Sub(d.Tick))
}
