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

// children returns the children of a process. One that has gone has none.
func (t *tree) children(pid int) ([]int, error) {
	if !t.threads {
		return t.scan(pid, nil)
	}
	return t.childrenOf(pid, 0, nil)
}

// childrenOf appends the children of a process that has that many threads, 0 if that is not known.
func (t *tree) childrenOf(pid, threads int, to []int) ([]int, error) {
	if threads == 1 {
		// Most have one, and its number is theirs.
		to, err := t.list(pid, pid, to)
		return to, unlessGone(err)
	}
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err == nil {
		defer dir.Close()
		var names []string
		names, err = dir.Readdirnames(-1)
		for _, name := range names {
			thread, _ := strconv.Atoi(name)
			var listErr error
			if to, listErr = t.list(pid, thread, to); exhausted(listErr) {
				err = listErr
			}
		}
	}
	return to, unlessGone(err)
}

// unlessGone takes an error for none that says that there is no such process any more.
func unlessGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
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
