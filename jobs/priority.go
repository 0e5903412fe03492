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
