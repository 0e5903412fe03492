//go:build linux

package jobs

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// never is an instant that does not come.
const never time.Duration = math.MaxInt64

// boottime reads the clock of [Deadlines]. Linux has had it since 2.6.39.
func boottime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return never // whoever cannot tell the time vouches for nothing
	}
	return time.Duration(now.Nano())
}

// later is the instant that comes d after from.
func later(from, d time.Duration) time.Duration {
	if d >= never-from {
		return never
	}
	return from + max(d, 0)
}

// earlier is the first of two instants, of which zero is none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// onTheWall takes a reading of CLOCK_BOOTTIME to a time of this process, with its monotonic reading.
func onTheWall(instant time.Duration) time.Time {
	return time.Now().Add(instant - boottime())
}
