//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is one that was seen in /proc. Its pid may be given to another one later; with the time
// it started at it names one process for ever.
type process struct {
	pid   int
	start uint64
}

// A tree reads who is whose child, from /proc/PID/task/TID/children (proc_tid_children(5)), or, where
// the kernel has none of that (CONFIG_PROC_CHILDREN), by reading who is the parent of each process
// there is.
//
// The kernel leaves entries out of such a list if others are taken out of it meanwhile, from one read to the
// next too: it counts from the beginning (get_children_pid in its fs/proc/array.c). Out of the list of this
// process nothing is taken but what it waits for itself, and what comes goes to its end: so all that is in it
// when the first piece is read is read.
type tree struct {
	threads bool // the kernel lists the children of each thread
	buf     []byte
}

func newTree() *tree {
	t := &tree{buf: make([]byte, 4<<10)}
	_, err := t.list(os.Getpid(), os.Getpid(), nil)
	t.threads = err == nil
	return t
}

// adopted appends the children that have come to this process from others. The kernel gives orphans
// to its first thread (find_new_reaper in kernel/exit.c). Children that were forked by that thread are
// among them; without the lists of the threads all children are.
func (t *tree) adopted(to []int) ([]int, error) {
	self := os.Getpid()
	if !t.threads {
		return t.scan(self, to)
	}
	return t.list(self, self, to)
}

// forked appends the children of one of this process' threads.
func (t *tree) forked(thread int, to []int) ([]int, error) { return t.list(os.Getpid(), thread, to) }

// children appends the children of a process. One that has gone has none.
func (t *tree) children(pid int, to []int) ([]int, error) {
	if !t.threads {
		return t.scan(pid, to)
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err == nil {
		defer dir.Close()
		var threads []string
		threads, err = dir.Readdirnames(-1)
		for _, name := range threads {
			thread, _ := strconv.Atoi(name)
			var listErr error
			if to, listErr = t.list(pid, thread, to); exhausted(listErr) {
				err = listErr
			}
		}
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		err = nil
	}
	return to, err
}

func (t *tree) list(pid, thread int, to []int) ([]int, error) {
	text, err := readAll("/proc/"+strconv.Itoa(pid)+"/task/"+strconv.Itoa(thread)+"/children", &t.buf)
	if err != nil {
		return to, err
	}
	for field := range bytes.FieldsSeq(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			to = append(to, child)
		}
	}
	return to, nil
}

// scan is children by another way.
func (t *tree) scan(parent int, to []int) ([]int, error) {
	all, err := t.all()
	for pid, stat := range all {
		if stat.parent == parent {
			to = append(to, pid)
		}
	}
	return to, err
}

// all reads every process of the host. One that lives from the first to the last of it is there.
func (t *tree) all() (map[int]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	all := make(map[int]procStat, len(names))
	for _, name := range names {
		pid, notAProcess := strconv.Atoi(name)
		if notAProcess != nil {
			continue
		}
		stat, statErr := readStat(pid, &t.buf)
		switch {
		case statErr == nil:
			all[pid] = stat
		case exhausted(statErr):
			err = statErr
		}
	}
	return all, err
}

// below calls do for every live process below pid, with what was known of it then, parents first.
func (t *tree) below(pid int, do func(process, procStat)) {
	var next []int
	next, _ = t.children(pid, next)
	// A process that forks while it is read may be read again under another number; a bound keeps
	// that from going on for ever. Whoever must find all looks again.
	for looked := 0; len(next) > 0 && looked < 1<<16; looked++ {
		pid := next[0]
		next = next[1:]
		stat, err := readStat(pid, &t.buf)
		if err != nil || stat.dead() {
			continue
		}
		do(process{pid, stat.start}, stat)
		next, _ = t.children(pid, next)
	}
}

// signal sends signals to a process, unless its pid has become another one's. Where the kernel has
// no pidfds (before Linux 5.3) that may happen between the look and the signal.
func (t *tree) signal(p process, sigs []syscall.Signal) {
	fd, noFD := unix.PidfdOpen(p.pid, 0)
	if noFD == nil {
		defer unix.Close(fd)
	}
	// From here on the descriptor is of one process. Is it the one that was seen?
	if stat, err := readStat(p.pid, &t.buf); err != nil || stat.start != p.start {
		return
	}
	for _, sig := range sigs {
		if noFD == nil {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0)
		} else {
			_ = syscall.Kill(p.pid, sig)
		}
	}
}
