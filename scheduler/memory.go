package scheduler

import (
	"context"
	"time"

	"rota/scheduler/ledger"
)

// What this host knows of the fleet outlives a Redis that forgets (FLUSHALL, a restart without
// persistence): the newest tick of its schedule that was decided goes with every claim of a job,
// and the pauses and drains that were set are written back.

// forgot looks whether Redis is another one than at the last heartbeat, by its epoch, and if so
// writes back what people had set. It tells whether it wrote anything. last is the newest request
// that the heart looked at.
func (s *Scheduler) forgot(ctx context.Context, f ledger.Fleet, last *string) bool {
	s.mu.Lock()
	was, known := s.epoch, s.steering
	s.epoch = f.Epoch
	if was == "" || was == f.Epoch {
		s.steering = f.Steering
		s.mu.Unlock()
		return false
	}
	s.mu.Unlock()
	if f.Epoch != s.told {
		s.told = f.Epoch
		// The ids of requests are instants of the server's clock, and that of this one may be behind.
		*last = ""
		s.log.Error("redis forgot everything", "effect", "pauses and drains are written back; the history is gone",
			"paused", len(known.Paused), "drained", len(known.Drained))
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opt.OpTimeout)
	defer cancel()
	if err := s.opt.Ledger.Restore(call, known, f.Now, s.opt.MaxAge+24*time.Hour); err != nil {
		if s.newRefusal(restoring, err) {
			s.log.Warn("steering not written back", "err", err)
		}
		s.mu.Lock()
		s.epoch = was // so that the next heartbeat tries again
		s.mu.Unlock()
		return false
	}
	s.newRefusal(restoring, nil)
	return true
}

// restoring is what a refusal to take the steering back is remembered under; no job is called so.
const restoring = "the steering"

// sawEpoch makes the heart look at once when a claim shows that Redis forgot.
func (s *Scheduler) sawEpoch(epoch string) {
	s.mu.Lock()
	changed := epoch != "" && s.epoch != "" && epoch != s.epoch
	s.mu.Unlock()
	if changed {
		s.beatSoon()
	}
}

func drained(s ledger.Steering, host string) bool {
	_, ok := s.Drained[host]
	return ok
}

// isDrained tells whether this host was told to claim nothing.
func (s *Scheduler) isDrained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// isPaused tells whether a job is paused, as far as the last heartbeat knows.
func (s *Scheduler) isPaused(job string) bool {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []string{job, ledger.EveryHostOf(job), ledger.AllJobs} {
		if s.steering.Paused[of].Active(now) {
			return true
		}
	}
	return false
}

// beatSoon makes the heart beat now.
func (s *Scheduler) beatSoon() {
	select {
	case s.beatNow <- struct{}{}:
	default: // it will, already
	}
}

// maxFence bounds the fencing tokens that are believed: above it Lua's numbers lose digits, and the
// scripts grant none. A foreign value at a lock's key may be any number.
const maxFence = 1 << 53

// sawFence remembers a fencing token of a lock, whoever holds it: this host never takes a smaller
// one.
func (s *Scheduler) sawFence(lock string, fence int64) {
	if fence >= maxFence {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors[lock] = max(s.floors[lock], fence)
}

// decides takes in that a claim's answer decided its tick. A manual run decides none: its tick is
// the instant it was asked for, and ticks of the schedule from before that may still be open.
func (s *Scheduler) decides(c *ledger.Claim) {
	if c.Kind != ledger.Manual {
		s.know(c.Job, c.Tick)
	}
}

// know remembers that a tick is decided, so that the claim can tell a Redis that forgot.
func (s *Scheduler) know(job string, tick time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tick.After(s.decided[job]) {
		s.decided[job] = tick
	}
}

// forget drops what is known of a job: its cursor turned out to lie in the future.
func (s *Scheduler) forget(job string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.decided, job)
}
