//go:build !linux

package locking

import "time"

// boottime stands still where there is no CLOCK_BOOTTIME: the monotonic clock judges alone.
func boottime() time.Duration { return 0 }
