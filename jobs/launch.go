//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// launch starts a warden and waits until it serves.
//
// It is this very binary, by way of /proc/self/exe, also if another version was installed over it
// meanwhile: the two ends always speak alike. It has a session of its own, so that a ^C at the
// daemon's terminal does not reach it, and an environment that nobody reads but the Go runtime, and
// whoever looks for processes by their environment.
func (w *Warden) launch() (*link, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	proc, err := os.StartProcess("/proc/self/exe", []string{wardenName}, &os.ProcAttr{
		Dir: "/",
		// Two threads are enough, also while one of them waits for an exec.
		Env:   merge(os.Environ(), []string{"GOMAXPROCS=2", wardenVariable + "=1"}),
		Files: []*os.File{null, null, os.Stderr, wardenSocket: theirs},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	l, err := newLink(ours, proc, w.log)
	if err != nil {
		// Nothing was started by it yet.
		_ = proc.Kill()
		_, _ = proc.Wait()
		return nil, errors.Join(err, ours.Close())
	}
	return l, nil
}

// dismiss ends a warden in order: it kills what it still has when its connection ends.
func (w *Warden) dismiss(l *link) {
	l.fail(errWardenClosed)
	l.disconnect()
	ended := make(chan error, 1)
	go func() {
		state, err := l.proc.Wait()
		if err == nil && !state.Success() {
			err = fmt.Errorf("the warden ended with %v: processes of runs may be left", state)
		}
		ended <- err
	}()
	select {
	case l.farewell = <-ended:
	case <-time.After(closePatience):
		_ = l.proc.Kill()
		l.farewell = fmt.Errorf("the warden did not end within %v", closePatience)
	}
	l.giveUp()
}

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
	k := keeper{tree: newTree(), warden: l.proc.Pid, marks: l.marks, runs: l.runNames(), environs: newEnvirons()}
	for pause, quiet := pollMin, 0; quiet < 2; {
		// Twice, because the list of this process' children may have left some out, see tree.
		if k.killOnce() {
			quiet = 0
		} else {
			quiet++
		}
		select {
		case <-dead:
			dead, k.warden = nil, 0 // the number may be anybody's from here on
		case <-w.closing:
			quiet = 2 // nobody waits any more; what SIGKILL was sent to is left to the kernel
		case <-time.After(pause):
			pause = min(2*pause, pollMax)
		}
	}
	l.giveUp()
}

// A keeper finds what a lost warden has left behind: below this process, which is its children's next
// subreaper, as in [family].
type keeper struct {
	tree     *tree
	warden   int
	marks    marks
	runs     map[string]bool // ROTA_RUN of those that were not over
	environs *environs
	children []int
}

// killOnce kills what it finds and tells whether it found any.
func (k *keeper) killOnce() (found bool) {
	var err error
	if k.children, err = k.tree.children(os.Getpid(), k.children[:0]); err != nil {
		return true // it has not seen that there is none
	}
	own := ownChildren()
	for _, pid := range k.children {
		stat, err := readStat(pid, &k.tree.buf)
		if err != nil {
			continue // it has ended, and was reaped
		}
		if pid != k.warden && (own[pid] || !k.isLeft(pid)) {
			continue
		}
		found = true
		if pid != k.warden {
			if stat.dead() {
				reap(pid)
				continue
			}
			// It is a child that is not reaped, so its group's number is its group's still.
			if stat.group != unix.Getpgrp() {
				signalGroup(stat.group, killSignals)
			}
			k.tree.signal(process{pid, stat.start}, killSignals)
		}
		k.tree.below(pid, func(p process, _ procStat) { k.tree.signal(p, killSignals) })
	}
	return found
}

// isLeft tells whether a child was the warden's.
func (k *keeper) isLeft(pid int) bool {
	if _, ok := k.marks.of(pid, &k.tree.buf); ok {
		return true
	}
	for _, run := range k.environs.settled(pid, &k.tree.buf).runs {
		if k.runs[run] {
			return true
		}
	}
	return false
}
