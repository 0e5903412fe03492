//go:build linux

package jobs

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What the server does about the runs: starting them, ending them, and saying how they ended.

// startNext hands the next run to the spawner.
func (s *server) startNext() {
	for s.starting == nil && len(s.queue) > 0 {
		r := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.starting, s.given, s.told = r, boottime(), false
		s.spawner.give(r.job)
	}
}

// startLimit is the instant at which a run is not started any more, [never] if there is none or it has
// started, and why: its start deadline, or that an exec hangs, its own or the one that it waits for. Without
// the latter a file system that does not answer would end all starts of the host.
func (s *server) startLimit(r *served) (at time.Duration, why failure) {
	if r.pid != 0 || r.refused != nil {
		return never, 0
	}
	at, why = never, failedOverdue
	if r.startBy != 0 {
		at = r.startBy
	}
	switch {
	case s.starting == nil:
	case r == s.starting && s.given+s.startPatience < at:
		at, why = s.given+s.startPatience, failedHung
	case r != s.starting:
		// That one is killed, and has had the time to come back, before those that wait are given up.
		if behind := max(r.asked, s.given+s.hangsAfter) + s.startPatience; behind < at {
			at, why = behind, failedBehind
		}
	}
	return at, why
}

// limitStarts refuses what cannot be started in time, and tells of an exec that hangs.
func (s *server) limitStarts(now time.Duration) {
	for _, r := range s.runs {
		if at, why := s.startLimit(r); now >= at {
			r.refused = &why
			r.life.ask(now, -1)
		}
	}
	if s.starting != nil && !s.told && now >= s.given+s.hangsAfter {
		s.told = true
		s.post(hangsMessage{s.starting.id})
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
		r.family = newFamily(j.pid, &s.orphans, &s.ration)
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
		if r.refused == nil {
			s.post(startedMessage{r.id, int32(j.pid), j.at})
		}
	}
	r.job.spec, r.job.struck = nil, false
}

// notStarted says that a run whose end came first was not begun.
func (s *server) notStarted(r *served) {
	delete(s.runs, r.id)
	why := failedEnded
	switch {
	case r.refused != nil:
		why = *r.refused
	case r.life.stage == running || r.life.by == byDeadline:
		why = failedLate
	}
	s.post(failedMessage{run: r.id, why: why})
}

// settle brings each run as far as it has come by now.
func (s *server) settle() {
	if len(s.runs) == 0 && !s.died.Swap(false) && !s.orphans.sweep.pending() {
		return
	}
	s.ration.begin()
	s.noteExits()
	for _, r := range s.runs {
		// Who has come to a deadline does not wait for a look at others.
		if r.pid != 0 && (!r.life.exited || r.told != running) && r.life.step(boottime()) != r.told {
			s.advance(r)
		}
	}
	s.refresh()
	now := boottime()
	s.limitStarts(now)
	for _, r := range s.runs {
		switch {
		case r.pid == 0:
			r.life.step(now)
			if r.life.stage != running {
				s.stopStart(r)
			}
		case r.known && !r.members.alive():
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
	switch {
	case stage == killing:
		r.told = killing
		r.members.signal(killSignals...)
	case stage == ending && r.told == running:
		r.told = ending
		r.members.signal(termSignals...)
		s.pause = pollMin
	default:
		r.family.goOn()
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
	if r.job.struck {
		return // it ends with that, if it can
	}
	children, _ := s.orphans.tree.forked(r.job.thread, nil)
	for _, pid := range children {
		if s.mains[pid] == nil {
			_ = unix.Kill(pid, unix.SIGKILL) // its own child: the number cannot be another's
			r.job.struck = true
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
	if r.refused != nil {
		s.post(failedMessage{run: r.id, why: *r.refused})
		return
	}
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
