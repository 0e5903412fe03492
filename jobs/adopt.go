//go:build linux

package jobs

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// reap waits for the children that came to this process from others.
func (w *Warden) reap(died <-chan os.Signal) {
	t := newTree()
	for {
		select {
		case <-died:
		case <-w.closing:
			return
		}
		// Again as long as there was one, because the list is not complete while others are reaped.
		for reapAdopted(t) {
		}
	}
}

// reapAdopted reaps what is dead and tells whether anything was.
func reapAdopted(t *tree) (found bool) {
	children, _ := t.children(os.Getpid())
	var own map[int]bool
	for _, pid := range children {
		// One that /proc hides may be dead or not.
		if stat, err := readStat(pid, &t.buf); err == nil && !stat.dead() {
			continue
		}
		if own == nil {
			var err error
			if own, err = ownChildren(); err != nil {
				return false // whose they are cannot be told now
			}
		}
		if !own[pid] {
			_, _, ok := reap(pid)
			found = found || ok
		}
	}
	return found
}

// ownChildren are the processes that this one holds a pidfd of: package os opens one with each that it
// starts, in the same system call, and closes it once it has waited for it (CLONE_PIDFD in clone(2)).
//
// With an error there may be others: whoever takes what is not his own does nothing then.
func ownChildren() (map[int]bool, error) {
	own := map[int]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return own, err
	}
	for _, fd := range fds {
		// anon_inode:[pidfd], since Linux 6.9 pidfd:[1234]
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		var info []byte
		if err == nil && strings.Contains(target, "pidfd") {
			info, err = os.ReadFile("/proc/self/fdinfo/" + fd.Name())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // that one was closed meanwhile
			return own, err
		}
		for line := range strings.Lines(string(info)) {
			if number, ok := strings.CutPrefix(line, "Pid:"); ok {
				if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
					own[pid] = true
				}
			}
		}
	}
	return own, nil
}
