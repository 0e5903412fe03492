//go:build linux

package jobs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What the server does about the runs: starting them, ending them, and saying how they ended.

// startNext hands the next run to the spawner.
func (s *server) startNext() {
	for s.starting == nil && len(s.queue) > 0 {
		r := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.starting = r
		s.spawner.give(r.job)
	}
}

// spawned takes in how a start went.
func (s *server) spawned(j *job) {
	r := j.run
	s.starting = nil
	for _, m := range j.flaws {
		s.post(m)
	}
	switch {
	case j.late:
		s.notStarted(r)
	case j.err != nil:
		delete(s.runs, r.id)
		s.post(failedMessage{run: r.id, why: j.failure(), errno: j.errno()})
	default:
		r.pid = j.pid
		r.family = newFamily(j.pid, &s.orphans)
		r.members = r.family
		if j.cgroup != nil {
			r.confined = confine(r.family, j.cgroup)
			r.members = r.confined
		}
		s.mains[r.pid] = r
		// Orphans that came before the start was known to be done.
		for _, orph := range s.orphans.all {
			if orph.of == r {
				r.family.adopt(orph)
			}
		}
		s.post(startedMessage{r.id, int32(j.pid), j.at})
	}
	r.job.spec = nil
}

// notStarted says that a run whose end came first was not begun.
func (s *server) notStarted(r *served) {
	delete(s.runs, r.id)
	why := failedEnded
	if r.life.stage == running || r.life.by == byDeadline {
		why = failedLate
	}
	s.post(failedMessage{run: r.id, why: why})
}

// settle brings each run as far as it has come by now.
func (s *server) settle() {
	if len(s.runs) == 0 && !s.died.Swap(false) {
		return
	}
	known := s.refresh()
	now := boottime()
	for _, r := range s.runs {
		switch {
		case r.pid == 0:
			r.life.step(now)
			if r.life.stage != running {
				s.stopStart(r)
			}
		case r.life.exited && known && !r.members.alive():
			s.finish(r)
		default:
			s.advance(r)
		}
	}
}

// advance sends the signals of the stages that a run has come to. SIGKILL it sends each time: what
// forked while the others got it turns up now.
func (s *server) advance(r *served) {
	now := boottime()
	stage := r.life.step(now)
	r.confined.goOn(now)
	if stage == killing {
		r.told = killing
		r.members.signal(killSignals...)
		return
	}
	if stage == ending && r.told == running {
		r.told = ending
		r.members.signal(termSignals...)
		s.pause = pollMin
	}
}

// stopStart keeps a run from being started. If the spawner is at it already, its child gets SIGKILL,
// which keeps it from ever being the program that it was to become; unless it hangs in the kernel so
// that even that has to wait.
func (s *server) stopStart(r *served) {
	r.job.stop.Store(true)
	if r != s.starting {
		for i, queued := range s.queue {
			if queued == r {
				s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
				break
			}
		}
		r.job.discard()
		s.notStarted(r)
		return
	}
	if r.life.stage != killing {
		return
	}
	r.told = killing
	children, _ := s.orphans.tree.forked(r.job.thread, nil)
	for _, pid := range children {
		if s.mains[pid] == nil {
			_ = unix.Kill(pid, unix.SIGKILL) // its own child: the number cannot be another's
		}
	}
}

// finish ends a run of which nothing lives any more.
func (s *server) finish(r *served) {
	// For a member that was not found, where the kernel does not list children.
	signalGroup(r.pid, killSignals)
	status, used, ok := reap(r.pid)
	if !ok {
		status = syscall.WaitStatus(unix.SIGKILL) // it was nobody's child: there is no status to be had
	}
	delete(s.mains, r.pid)
	delete(s.runs, r.id)
	used, want := s.leave(r, r.usage.add(used))
	s.post(endedMessage{
		run: r.id, status: uint32(status), at: boottime(), by: r.life.by,
		killed: r.told == killing, usage: used, want: want,
	})
}

// discard closes what a job that does not get to the spawner holds.
func (j *job) discard() {
	closeAll(j.files)
	j.files = nil
}
