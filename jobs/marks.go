//go:build linux

package jobs

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// marks tell which run a process comes from, whatever it did to its environment, its session and its
// parents: the soft limit RLIMIT_LOCKS, which each run gets to start with. Children inherit it,
// exec keeps it, everybody may read it, and no kernel since Linux 2.4.25 does anything else with it
// (getrlimit(2)). A process loses its mark only by setting that very limit.
//
// The upper half of a mark is the warden's own, so that one that was started by an earlier warden, or
// by that of a daemon which is itself a job, is none of this one's.
type marks struct {
	base uint64 // 0: there are no marks
	hard uint64 // the limit above them
}

// newMarks chooses a range. Where this process may not use it (a hard limit, a sandbox) there are no
// marks.
func newMarks() marks {
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &old); err != nil {
		return marks{}
	}
	var random [4]byte
	_, _ = rand.Read(random[:])
	// 62 bits, so that the mark is below the infinity of any C library, and never 0.
	m := marks{base: uint64(binary.LittleEndian.Uint32(random[:])>>2|1) << 32, hard: old.Max}
	if m.set(0) != nil {
		return marks{}
	}
	if run, ok, _ := m.of(unix.Getpid(), new(make([]byte, 4<<10))); !ok || run != 0 {
		return marks{}
	}
	return m
}

// set gives this process the mark of a run, for what it starts next.
func (m marks) set(run runID) error {
	if m.base == 0 {
		return nil
	}
	mark := m.base | uint64(run)
	if mark > m.hard {
		return errors.New("the hard limit is below")
	}
	return unix.Prlimit(0, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: mark, Max: m.hard}, nil)
}

// of reads a process' mark; ok is false if it has none of these. The error is one that says nothing about
// the process.
func (m marks) of(pid int, buf *[]byte) (run runID, ok bool, err error) {
	if m.base == 0 {
		return 0, false, nil
	}
	var limit unix.Rlimit
	switch err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit); {
	case err == nil:
		run, ok = m.read(limit.Cur)
		return run, ok, nil
	case errors.Is(err, unix.ESRCH):
		return 0, false, nil
	}
	// Another user's: of that the system call does not tell, and /proc does (proc_pid_limits(5)).
	text, err := readAll("/proc/"+strconv.Itoa(pid)+"/limits", buf)
	if exhausted(err) {
		return 0, false, err
	}
	// Max file locks            4611686018427387904  unlimited            locks
	_, line, _ := bytes.Cut(text, []byte("Max file locks"))
	for soft := range bytes.FieldsSeq(line) {
		if mark, err := strconv.ParseUint(string(soft), 10, 64); err == nil {
			run, ok = m.read(mark)
		}
		break
	}
	return run, ok, nil
}

// read takes a mark apart.
func (m marks) read(mark uint64) (run runID, ok bool) {
	if mark&^0xffffffff != m.base {
		return 0, false
	}
	return runID(mark & 0xffffffff), true
}
