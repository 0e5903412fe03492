//go:build linux

package jobs

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leastMargin is the shortest time that lies between the SIGKILL of a run and the end of its lease. What is
// later than that by itself, on a machine that is idle, breaks the promise that nothing outlives its lease.
const leastMargin = 50 * time.Millisecond

// promptly fails if what is tried never comes less than most late. A busy machine makes it later, but
// hardly every time; a fault does.
func promptly(t *testing.T, what string, most time.Duration, try func() (late time.Duration)) {
	t.Helper()
	const tries = 10
	least := never
	for range tries {
		if least = min(least, try()); least <= most || t.Failed() {
			return
		}
	}
	t.Errorf("%s comes %v late, the best of %d times; want it %v late at most", what, least, tries, most)
}

// deaths waits until all of the processes have ended, and returns when that was, on CLOCK_BOOTTIME.
func deaths(t *testing.T, pids []int) time.Duration {
	t.Helper()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // gone, and reaped
		}
		process := os.NewFile(uintptr(fd), "process")
		// Readable once it has ended (pidfd_open(2)).
		n, err := 0, error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
		}
		process.Close()
		if err != nil || n == 0 {
			t.Fatalf("process %d has not ended after 20s: %v", pid, err)
		}
	}
	return boottime()
}
