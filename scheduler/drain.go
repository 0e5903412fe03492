package scheduler

import (
	"fmt"
	"sync"
	"time"

	"rota/jobs"
)

// drain waits for what is under way: as long as Drain says, then as long as handlers take to
// end, then as long as it takes to record that.
func (s *Scheduler) drain() {
	s.mu.Lock()
	s.draining = true
	going := len(s.runs)
	s.mu.Unlock()
	s.log.Info("drain began", "running", going)
	s.beatSoon() // tells the others not to rank this host
	done, handlers := closedAfter(&s.work), closedAfter(&s.handling)
	go func() {
		<-handlers
		time.AfterFunc(s.callGrace(), s.leave) // as long as runs go on, so do all tries
	}()
	switch waitFor(s.opt.Drain, done, s.killed) {
	case done:
		return
	case nil: // who is told to kill interrupts with a reason of its own (watch)
		s.interrupt(fmt.Errorf("%w: the daemon stopped and the drain time of %s was over", jobs.ErrInterrupted, s.opt.Drain))
	}
	if waitFor(s.stopGrace(), done, handlers, s.killed) == done {
		return
	}
	s.Kill()
	if waitFor(s.callGrace(), done) != done {
		s.end()
		<-done
	}
}

// callGrace is how long calls that fail are repeated while the daemon stops.
func (s *Scheduler) callGrace() time.Duration { return abandonAfterKill + 2*s.opt.OpTimeout }

// stopGrace is how long interrupted handlers may take: those that say how long they need, as
// [jobs.Command] does, get that and some.
func (s *Scheduler) stopGrace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := s.opt.StopGrace
	for _, r := range s.runs {
		if h, ok := r.job.Handler.(interface{ Grace() time.Duration }); ok {
			longest = max(longest, h.Grace()+5*time.Second)
		}
	}
	return longest
}

func closedAfter(wg *sync.WaitGroup) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		wg.Wait()
		close(c)
	}()
	return c
}

// waitFor returns the first of up to three channels that is closed, nil when d has passed.
func waitFor(d time.Duration, c ...<-chan struct{}) <-chan struct{} {
	t := time.NewTimer(d)
	defer t.Stop()
	var of [3]<-chan struct{}
	copy(of[:], c)
	select {
	case <-of[0]:
		return of[0]
	case <-of[1]:
		return of[1]
	case <-of[2]:
		return of[2]
	case <-t.C:
		return nil
	}
}
