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

// lookingTime is how long the warden looks at its orphans at a time while they die under its eyes.
const lookingTime = 20 * time.Millisecond

// An orphan is a process that came to the warden because its parent ended. Whose it is shows in its
// process group, in that it was signalled before, in its mark, or, if it has lost that, in its cgroup
// or its environment.
type orphan struct {
	process
	of     *served // nil: nobody's, or not known yet
	asking bool    // its environment is being read
	stray  bool    // nobody's
	look   int     // that it was seen in last
}

// orphans are all that the warden has. They are the server's loop's alone, except for the answers.
type orphans struct {
	tree     *tree
	marks    marks
	environs *environs
	bell     *bell

	all   map[int]*orphan // by pid
	doubt int             // how many are being asked for
	looks int
	list  []int // of the last look

	mu      sync.Mutex
	answers []answer
}

// An answer is what the environment of an orphan says.
type answer struct {
	process
	env environ
}

// look reads the list of the warden's children, looks at each that is not a run's main process, takes
// in what is new and buries what is dead. It returns false if any was dead, or came and could not be
// looked at: then there may be others by now, the children of those, that are not in the list.
func (s *server) look() bool {
	o := &s.orphans
	o.looks++
	var err error
	if o.list, err = o.tree.adopted(o.list[:0]); err != nil {
		return false
	}
	clean := true
	for _, pid := range o.list {
		if s.mains[pid] != nil {
			continue
		}
		stat, err := readStat(pid, &o.tree.buf)
		if err != nil {
			clean = false
			continue
		}
		p := process{pid, stat.start}
		orph := o.all[pid]
		if orph == nil || orph.process != p {
			orph = &orphan{process: p}
			o.all[pid] = orph
			s.place(orph, stat)
		}
		orph.look = o.looks
		if stat.dead() {
			s.bury(orph)
			clean = false
		}
	}
	for pid, orph := range o.all {
		if orph.look != o.looks { // reaped by the spawner: the child of a start that failed
			s.forget(pid)
		}
	}
	return clean
}

// refresh looks until nothing has died meanwhile. After it the living orphans of each run whose main
// process has ended are known, all of them; unless it returns false.
func (s *server) refresh() bool {
	now := boottime()
	for _, r := range s.mains {
		// Before the list is read: what the main process left has come to the warden by then.
		if !r.life.exited && hasExited(r.pid) {
			r.life.exit(now)
		}
	}
	if s.starting != nil && !s.orphans.tree.threads {
		return false // the child that is being started cannot be told from an orphan
	}
	for until := now + lookingTime; ; {
		if s.look() {
			return true
		}
		if boottime() >= until {
			return false // the next round goes on with it
		}
	}
}

// place finds out whose an orphan is.
func (s *server) place(orph *orphan, stat procStat) {
	if r := s.mains[stat.group]; r != nil {
		s.give(orph, r)
		return
	}
	for _, r := range s.mains {
		if r.family != nil && r.family.knows(orph.process) {
			s.give(orph, r) // it was seen below its main process
			return
		}
	}
	if id, ok := s.orphans.marks.of(orph.pid, &s.orphans.tree.buf); ok {
		if r := s.runs[id]; r != nil {
			s.give(orph, r)
		} else {
			// Of a run that is over. None of it was alive, so this cannot be; if it is, it goes the
			// way of its run, and somebody should know.
			_ = unix.Kill(orph.pid, unix.SIGKILL)
			s.post(strayMessage{int32(orph.pid), true, orph.name()})
		}
		return
	}
	if stat.dead() {
		return
	}
	for _, r := range s.mains {
		if r.confined != nil && r.confined.cgroup.holds(orph.pid, &s.orphans.tree.buf) {
			s.give(orph, r)
			return
		}
	}
	orph.asking = true
	s.orphans.doubt++
	// Not here: to read an environment may take long, and deadlines do not wait.
	go s.orphans.ask(orph.process)
}

func (s *server) give(orph *orphan, r *served) {
	orph.of = r
	if r.family != nil {
		r.family.adopt(orph)
	}
}

// ask reads the environment of an orphan.
func (o *orphans) ask(p process) {
	env := o.environs.settled(p.pid, new(make([]byte, 4<<10)))
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
			orph.stray = true
			s.post(strayMessage{int32(orph.pid), false, orph.name()})
		}
	}
}

// bury reaps a dead orphan.
func (s *server) bury(orph *orphan) {
	if _, used, ok := reap(orph.pid); ok && orph.of != nil {
		orph.of.usage = orph.of.usage.add(used)
	}
	s.forget(orph.pid)
}

func (s *server) forget(pid int) {
	orph := s.orphans.all[pid]
	if orph.asking {
		s.orphans.doubt--
	}
	if orph.of != nil && orph.of.family != nil {
		delete(orph.of.family.orphans, pid)
	}
	delete(s.orphans.all, pid)
}

// name is a process' name, for a person.
func (p process) name() string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/comm") // "" if it is gone
	return string(bytes.TrimSuffix(text, []byte("\n")))
}
