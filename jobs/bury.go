//go:build linux

package jobs

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// bury does what a warden that is lost can no longer do: it kills its runs. The error says that it could
// not before its time was over, which begins when the Warden is closed: until then it goes on.
func (w *Warden) bury(l *link) error {
	// Also one that was stopped: its children come to this process only when it is dead.
	_ = l.proc.Kill()
	l.disconnect()
	defer l.giveUp()
	ended := l.ended
	left := leftovers{tree: newTree(), warden: l.proc.Pid, marks: l.marks, runs: l.runNames(), environs: newEnvirons()}
	for run := range left.runs {
		if dir, ok := w.cgroups.of(run); ok {
			left.cgroups = append(left.cgroups, dir)
		}
	}
	defer w.clearCgroups(l)
	closing := w.closing
	var over <-chan time.Time
	for pause, quiet := pollMin, 0; ; pause = min(2*pause, pollMax) {
		select {
		case <-ended:
			ended, left.warden = nil, 0 // the number may be anybody's from here on
		default:
		}
		// Twice, because what forked and died while it looked may have been overlooked.
		if quiet++; left.killOnce() {
			quiet = 0
		}
		if quiet == 2 {
			return nil
		}
		select {
		case <-ended:
		case <-closing:
			closing, over = nil, time.After(buryPatience)
		case <-over:
			return fmt.Errorf("processes of runs that did not die within %v may be left", buryPatience)
		case <-time.After(pause):
		}
	}
}

// leftovers are what a lost warden has left behind: its children, which come to this process when it is
// dead, whatever shows its mark, and everything below those.
//
// They are looked for among all processes of the host. The lists of children would be less to read, but
// not to be trusted here: others wait for this process' children at the same time, see [tree].
type leftovers struct {
	tree     *tree
	warden   int
	marks    marks
	runs     map[string]bool // ROTA_RUN of those that were not over
	cgroups  []cgroupDir     // theirs; some are not there
	environs *environs
}

// killOnce kills what it finds and tells whether it found any.
func (l *leftovers) killOnce() (found bool) {
	for _, d := range l.cgroups {
		if d.populated() {
			found = true
			_ = d.kill()
		}
	}
	all, err := l.tree.all()
	if err != nil {
		return true // it has not seen that there is none
	}
	own, err := ownChildren()
	if err != nil {
		return true
	}
	left := map[int]bool{}
	below := map[int][]int{}
	for pid, stat := range all {
		below[stat.parent] = append(below[stat.parent], pid)
		if pid == l.warden {
			left[pid] = true
		} else if !own[pid] {
			is, err := l.isLeft(pid, stat)
			left[pid] = is
			found = found || err != nil
		}
	}
	maps.DeleteFunc(left, func(_ int, is bool) bool { return !is })
	for next := slices.Collect(maps.Keys(left)); len(next) > 0; next = next[1:] {
		for _, pid := range below[next[0]] {
			if !left[pid] {
				left[pid] = true
				next = append(next, pid)
			}
		}
	}
	for pid := range left {
		stat := all[pid]
		switch {
		case pid == l.warden && stat.dead():
			found = true // its children have not all come to this process yet
		case !stat.dead():
			found = true
			l.tree.signal(process{pid, stat.start}, killSignals)
		case stat.parent == os.Getpid():
			reap(pid) // if others have not
		}
	}
	return found
}

// isLeft tells whether a process was the warden's, by what it shows itself. The error is one that says
// nothing about it.
func (l *leftovers) isLeft(pid int, stat procStat) (bool, error) {
	if _, ok, err := l.marks.of(pid, &l.tree.buf); ok || err != nil {
		return ok, err
	}
	if stat.parent != os.Getpid() {
		return false, nil
	}
	env := l.environs.settled(pid, &l.tree.buf)
	return slices.ContainsFunc(env.runs, func(run string) bool { return l.runs[run] }), env.err
}

// endStrays kills what came to this process from lost wardens and shows no sign of a run, with all that is
// below it. Nobody else waits for such children any more, so their numbers are theirs.
func (w *Warden) endStrays() error {
	if !w.lost || !w.knowsOwn {
		return nil
	}
	t := newTree()
	until := time.Now().Add(buryPatience)
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		children, err := t.children(os.Getpid())
		own, ownErr := ownChildren() // after it: who was started meanwhile is not in the list
		found := err != nil || ownErr != nil
		for _, pid := range children {
			if found && ownErr != nil || own[pid] {
				continue
			}
			if _, _, e := await(pid); e == alive {
				found = true
				t.below(pid, func(p process, _ procStat) { t.signal(p, killSignals) })
				_ = unix.Kill(pid, unix.SIGKILL)
			} else if e == reaped {
				found = true // what was below it comes now
			}
		}
		switch {
		case !found:
			return nil
		case time.Now().After(until):
			return fmt.Errorf("processes that came from lost wardens did not die within %v", buryPatience)
		}
		time.Sleep(pause)
	}
}
