//go:build linux

package jobs

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// bury does what a warden that is lost can no longer do: it kills its runs. The error says that it could
// not before its time was over, which begins when the Warden is closed: until then it goes on.
func (w *Warden) bury(l *link) error {
	// Also one that was stopped: its children come to this process only when it is dead.
	_ = l.proc.Kill()
	l.disconnect()
	defer l.giveUp()
	dead := make(chan struct{})
	w.work.Go(func() {
		_, _ = l.proc.Wait()
		close(dead)
	})
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
		// Twice, because what forked and died while it looked may have been overlooked.
		if quiet++; left.killOnce() {
			quiet = 0
		}
		if quiet == 2 {
			return nil
		}
		select {
		case <-dead:
			dead, left.warden = nil, 0 // the number may be anybody's from here on
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
	own := ownChildren()
	left := map[int]bool{}
	below := map[int][]int{}
	for pid, stat := range all {
		below[stat.parent] = append(below[stat.parent], pid)
		if pid == l.warden || !own[pid] && l.isLeft(pid, stat) {
			left[pid] = true
		}
	}
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

// isLeft tells whether a process was the warden's, by what it shows itself.
func (l *leftovers) isLeft(pid int, stat procStat) bool {
	if _, ok := l.marks.of(pid, &l.tree.buf); ok {
		return true
	}
	if stat.parent != os.Getpid() {
		return false
	}
	for _, run := range l.environs.settled(pid, &l.tree.buf).runs {
		if l.runs[run] {
			return true
		}
	}
	return false
}
