//go:build linux

package jobs

import (
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
	children, _ := t.children(os.Getpid(), nil)
	var own map[int]bool
	for _, pid := range children {
		if stat, err := readStat(pid, &t.buf); err != nil || !stat.dead() {
			continue
		}
		if own == nil {
			own = ownChildren()
		}
		if !own[pid] {
			reap(pid)
			found = true
		}
	}
	return found
}

// ownChildren are the processes that this one holds a pidfd of: package os opens one with each that it
// starts, in the same system call, and closes it once it has waited for it (CLONE_PIDFD in clone(2)).
func ownChildren() map[int]bool {
	own := map[int]bool{}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		// anon_inode:[pidfd], since Linux 6.9 pidfd:[1234]
		target, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err != nil || !strings.Contains(target, "pidfd") {
			continue
		}
		info, _ := os.ReadFile("/proc/self/fdinfo/" + fd.Name()) // "" if it was closed meanwhile
		for line := range strings.Lines(string(info)) {
			if number, ok := strings.CutPrefix(line, "Pid:"); ok {
				if pid, err := strconv.Atoi(strings.TrimSpace(number)); err == nil {
					own[pid] = true
				}
			}
		}
	}
	return own
}
