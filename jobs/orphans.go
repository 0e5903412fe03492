//go:build linux

package jobs

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// askingAtOnce is how many environments are read at a time.
const askingAtOnce = 32

// An orphan is a process that came to the warden because its parent ended. Whose it is shows in its
// process group, in its mark, in that it was seen below its run's main process, in its cgroup, or, if it has
// none of these, in its environment.
//
// It is the warden's child, and nobody else waits for it: its number is its own until it is reaped.
type orphan struct {
	process
	of     *served // nil: nobody's, or not known yet
	asking bool    // its environment is being read
	hidden bool    // /proc does not show it to this user (hidepid in proc(5))
	seen   int     // the last sweep that it was in
}

// orphans are all that the warden has. They are the server's loop's alone, except for the answers.
type orphans struct {
	tree     *tree
	marks    marks
	environs *environs
	bell     *bell
	slots    chan struct{} // of those that ask

	all   map[int]*orphan // by pid
	doubt int             // how many are being asked for
	sweep sweep

	mu      sync.Mutex
	answers []answer
}

// An answer is what the environment of an orphan says.
type answer struct {
	process
	env environ
}

func newOrphans(m marks, b *bell) orphans {
	return orphans{
		tree: newTree(), marks: m, environs: newEnvirons(), bell: b,
		slots: make(chan struct{}, askingAtOnce), all: map[int]*orphan{},
	}
}

// meet takes in an orphan that is new. It returns nil if that has to wait, or it is gone.
func (s *server) meet(pid int) *orphan {
	o := &s.orphans
	stat, err := readStat(pid, &o.tree.buf)
	// A child is to be found in /proc for as long as it is one; or else it is hidden there.
	hidden := err != nil && !exhausted(err)
	if hidden {
		if stat, err = hiddenStat(pid); err != nil {
			return nil
		}
	}
	orph := &orphan{process: process{pid, stat.start}, hidden: hidden}
	if err == nil {
		err = s.place(orph, stat)
	}
	if err != nil {
		o.sweep.blind, o.sweep.again = true, true
		return nil
	}
	o.all[pid] = orph
	return orph
}

// hiddenStat is what can be known of a child without /proc. The error says that there is none.
func hiddenStat(pid int) (procStat, error) {
	group, err := unix.Getpgid(pid)
	return procStat{state: 'S', parent: os.Getpid(), group: group}, err
}

// place finds out whose an orphan is. The error says that this cannot be told now.
func (s *server) place(orph *orphan, stat procStat) error {
	if r := s.mains[stat.group]; r != nil {
		s.give(orph, r)
		return nil
	}
	id, ok, err := s.orphans.marks.of(orph.pid, &s.orphans.tree.buf)
	if err != nil {
		return err
	}
	if ok {
		if r := s.runs[id]; r != nil {
			s.give(orph, r)
		} else {
			// Of a run that is over. None of it was alive, so this cannot be; if it is, it goes the
			// way of its run, and somebody should know.
			_ = unix.Kill(orph.pid, unix.SIGKILL)
			s.stray(orph, strayLate)
		}
		return nil
	}
	for _, r := range s.mains {
		if r.family != nil && r.family.knows(orph.process) {
			s.give(orph, r)
			return nil
		}
	}
	for _, r := range s.mains {
		if r.confined != nil && r.confined.has(orph, &s.orphans.tree.buf) {
			s.give(orph, r)
			return nil
		}
	}
	switch {
	case stat.dead():
	case orph.hidden:
		s.stray(orph, strayHidden)
	default:
		orph.asking = true
		s.orphans.doubt++
		// Not here: to read an environment may take long, and deadlines do not wait.
		go s.orphans.ask(orph.process)
	}
	return nil
}

func (s *server) give(orph *orphan, r *served) {
	orph.of = r
	if r.family != nil {
		r.family.adopt(orph)
	}
}

// stray tells the daemon of an orphan that is no live run's.
func (s *server) stray(orph *orphan, why strayReason) {
	s.post(strayMessage{int32(orph.pid), why, orph.name()})
}

// ask reads the environment of an orphan. As long as nothing can be read at all, which says nothing about
// it, it is asked again.
func (o *orphans) ask(p process) {
	o.slots <- struct{}{}
	defer func() { <-o.slots }()
	buf := make([]byte, 4<<10)
	env := o.environs.settled(p.pid, &buf)
	for env.err != nil {
		time.Sleep(pollMax)
		env = o.environs.settled(p.pid, &buf)
	}
	o.mu.Lock()
	o.answers = append(o.answers, answer{p, env})
	o.mu.Unlock()
	o.bell.ring()
}

// answered takes in what orphans were found to say.
func (s *server) answered() {
	o := &s.orphans
	o.mu.Lock()
	answers := o.answers
	o.answers = nil
	o.mu.Unlock()
	for _, a := range answers {
		orph := o.all[a.pid]
		if orph == nil || orph.process != a.process || !orph.asking {
			continue // it has ended
		}
		orph.asking = false
		o.doubt--
		for _, r := range s.runs {
			if r.run != "" && slices.Contains(a.env.runs, r.run) {
				s.give(orph, r)
				break
			}
		}
		if orph.of == nil {
			s.stray(orph, strayUnmarked)
		}
	}
}

// forget takes an orphan out that has ended.
func (s *server) forget(pid int) {
	orph := s.orphans.all[pid]
	if orph.asking {
		s.orphans.doubt--
	}
	if orph.of != nil && orph.of.family != nil {
		orph.of.family.forget(orph)
	}
	delete(s.orphans.all, pid)
}

// name is a process' name, for a person.
func (p process) name() string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/comm") // "" if it is gone
	return string(bytes.TrimSuffix(text, []byte("\n")))
}
