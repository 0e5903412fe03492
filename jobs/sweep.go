//go:build linux

package jobs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// A sweep is a look at all orphans that the warden has, as far as it has got. One that finds nothing
// that has just died, or could not be looked at, has seen all there are of each run whose main process
// had ended before: what comes later comes because its parent ended, and at the end of that chain is an
// orphan that the sweep saw alive and counts still. That holds however long the sweep takes, so it goes on
// from round to round.
//
// What has died of one run leaves nothing to another. So a run whose orphans come and go does not keep
// the others from ending.
type sweep struct {
	number int
	list   []int // the warden's children when it began, without the spawner's
	next   int   // in list
	open   bool  // it has not come to its end

	blind bool // something died that was nobody's, or could not be looked at: nobody's end is certain
	again bool // there may be more by now
}

// pending tells whether there is a sweep to be made, whatever happens meanwhile.
func (w *sweep) pending() bool { return w.open || w.again }

// refresh goes on with the sweep, and begins others until one finds nothing new or the time is spent.
func (s *server) refresh() {
	w := &s.orphans.sweep
	for {
		if !w.open && !s.beginSweep() {
			w.again = true
			return
		}
		for w.open {
			if w.next == len(w.list) {
				s.endSweep()
				break
			}
			s.lookAt(w.list[w.next])
			if w.next++; s.ration.sweepSpent() {
				return
			}
		}
		if !w.again || s.ration.sweepSpent() {
			return
		}
	}
}

// beginSweep reads the list of the orphans, unless it cannot be had.
func (s *server) beginSweep() bool {
	o := &s.orphans
	if s.starting != nil && !o.tree.threads {
		return false // the child that is being started cannot be told from an orphan
	}
	list, err := o.tree.adopted(o.sweep.list[:0])
	o.sweep = sweep{number: o.sweep.number + 1, list: list, open: err == nil}
	return err == nil
}

// endSweep draws the conclusion.
func (s *server) endSweep() {
	o := &s.orphans
	o.sweep.open = false
	for pid, orph := range o.all {
		if orph.seen != o.sweep.number {
			s.forget(pid) // reaped by the spawner: the child of a start that failed
		}
	}
	for _, r := range s.mains {
		r.known = r.life.exited && r.exitSeen < o.sweep.number && r.stirred < o.sweep.number && !o.sweep.blind
	}
}

// noteExits notes which main processes have ended. What they left has come to the warden by then, and is
// in the list of the next sweep that begins.
func (s *server) noteExits() {
	now := boottime()
	for _, r := range s.mains {
		if !r.life.exited && hasExited(r.pid) {
			r.life.exit(now)
			r.exitSeen = s.orphans.sweep.number
		}
	}
}

// lookAt takes an orphan in if it is new, and buries it if it is dead.
func (s *server) lookAt(pid int) {
	o := &s.orphans
	if s.mains[pid] != nil {
		return
	}
	orph := o.all[pid]
	if orph == nil {
		if orph = s.meet(pid); orph == nil {
			return
		}
	}
	orph.seen = o.sweep.number
	if _, used, end := await(pid); end != alive {
		s.bury(orph, used)
	}
}

// bury takes a dead orphan out. What hung on it has come to the warden, behind what the sweep has listed.
func (s *server) bury(orph *orphan, used usage) {
	w := &s.orphans.sweep
	w.again = true
	if r := orph.of; r != nil {
		r.usage = r.usage.add(used)
		r.stirred, r.known = w.number, false
	} else {
		w.blind = true
	}
	s.forget(orph.pid)
}

// An end is what waiting for a child shows.
type end uint8

const (
	alive  end = iota // or held by a debugger, which is told first
	reaped            // it was dead, and is gone
	absent            // no child of this process
)

// await looks whether a child has ended, and takes its status if so, and what it used, it and those that
// it had waited for.
func await(pid int) (status syscall.WaitStatus, used usage, e end) {
	var ru syscall.Rusage
	for {
		switch got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &ru); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return status, usage{}, absent
		case got == pid:
			return status, usageOf(&ru), reaped
		default:
			return status, usage{}, alive
		}
	}
}
