//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// setNice gives the calling thread a priority. Linux has one for each thread, which children inherit
// (setpriority(2), C library/kernel differences).
func setNice(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		return &niceError{nice, errno}
	}
	return nil
}

// A pace is the priority of the thread that it was made on, which may have more for a while.
type pace struct {
	attr    *unix.SchedAttr // nil: there is no more to be had
	nice    int32
	hurries bool
}

// highest is the highest priority of an ordinary thread (getpriority(2)).
const highest = -20

// newPace takes what the calling thread has. What is scheduled in another way than most keeps that.
func newPace() pace {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return pace{}
	}
	// Whatever the thread has, what is forked from it has no more than most (sched(7)).
	attr.Flags = unix.SCHED_FLAG_RESET_ON_FORK
	return pace{attr: attr, nice: attr.Nice}
}

// hurry gives the calling thread all the priority that there is, if this process may do that, or what it had.
func (p *pace) hurry(on bool) {
	if p.attr == nil || p.hurries == on {
		return
	}
	p.hurries, p.attr.Nice = on, p.nice
	if on {
		p.attr.Nice = highest
	}
	if unix.SchedSetAttr(0, p.attr, 0) != nil {
		p.attr = nil
	}
}

// A niceError says that a priority was refused.
type niceError struct {
	nice  int
	errno syscall.Errno
}

func (e *niceError) Error() string {
	if errors.Is(e.errno, unix.EACCES) || errors.Is(e.errno, unix.EPERM) {
		return fmt.Sprintf("nice %d: a higher priority than the daemon's takes root, or CAP_SYS_NICE, or RLIMIT_NICE", e.nice)
	}
	return fmt.Sprintf("nice %d: %v", e.nice, e.errno)
}

// MayNice says what keeps this process from starting programs with a priority, nil if nothing does.
func MayNice(nice int) error {
	// The system call has 20 minus the value, so that it is never negative (getpriority(2)).
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return &niceError{nice, unix.EINVAL}
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NICE, &limit) // else it is 0, which allows nothing
	if nice >= 20-raw || uint64(20-nice) <= limit.Cur || len(lacking(capSysNice)) == 0 {
		return nil
	}
	return &niceError{nice, unix.EACCES}
}
