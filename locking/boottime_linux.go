package locking

import (
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads CLOCK_BOOTTIME, which unlike the clock of Go's timers goes on while the
// machine sleeps (clock_gettime(2)).
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // a kernel without it: the monotonic clock judges alone
	}
	return time.Duration(ts.Nano())
}
