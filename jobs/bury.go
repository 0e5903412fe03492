//go:build linux

package jobs

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bury does what a warden that is lost can no longer do: it kills its runs.
func (w *Warden) bury(l *link) {
	// Also one that was stopped: its children come to this process only when it is dead.
	_ = l.proc.Kill()
	l.disconnect()
	dead := make(chan struct{})
	w.work.Go(func() {
		_, _ = l.proc.Wait()
		close(dead)
	})
	left := leftovers{tree: newTree(), warden: l.proc.Pid, marks: l.marks, runs: l.runNames(), environs: newEnvirons()}
	for pause, quiet := pollMin, 0; quiet < 2; {
		// Twice, because the list of this process' children may have left some out, see tree.
		if left.killOnce() {
			quiet = 0
		} else {
			quiet++
		}
		select {
		case <-dead:
			dead, left.warden = nil, 0 // the number may be anybody's from here on
		case <-w.closing:
			quiet = 2 // nobody waits any more; what SIGKILL was sent to is left to the kernel
		case <-time.After(pause):
			pause = min(2*pause, pollMax)
		}
	}
	l.giveUp()
}

// leftovers are what a lost warden has left behind. They are below this process, its children's next
// subreaper, as those of a run are below the warden in [family].
type leftovers struct {
	tree     *tree
	warden   int
	marks    marks
	runs     map[string]bool // ROTA_RUN of those that were not over
	environs *environs
	children []int
}

// killOnce kills what it finds and tells whether it found any.
func (l *leftovers) killOnce() (found bool) {
	var err error
	if l.children, err = l.tree.children(os.Getpid(), l.children[:0]); err != nil {
		return true // it has not seen that there is none
	}
	own := ownChildren()
	for _, pid := range l.children {
		stat, err := readStat(pid, &l.tree.buf)
		if err != nil {
			continue // it has ended, and was reaped
		}
		if pid != l.warden && (own[pid] || !l.isLeft(pid)) {
			continue
		}
		found = true
		if pid != l.warden {
			if stat.dead() {
				reap(pid)
				continue
			}
			// It is a child that is not reaped, so its group's number is its group's still.
			if stat.group != unix.Getpgrp() {
				signalGroup(stat.group, killSignals)
			}
			l.tree.signal(process{pid, stat.start}, killSignals)
		}
		l.tree.below(pid, func(p process, _ procStat) { l.tree.signal(p, killSignals) })
	}
	return found
}

// isLeft tells whether a child was the warden's.
func (l *leftovers) isLeft(pid int) bool {
	if _, ok := l.marks.of(pid, &l.tree.buf); ok {
		return true
	}
	for _, run := range l.environs.settled(pid, &l.tree.buf).runs {
		if l.runs[run] {
			return true
		}
	}
	return false
}
