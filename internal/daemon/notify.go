package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// notifier tells systemd how the daemon stands (sd_notify(3)). Outside systemd it says nothing.
// It is safe for concurrent use.
type notifier struct {
	log *slog.Logger

	mu      sync.Mutex // held over a message, so that none of a reload comes after STOPPING
	stopped bool
}

func (n *notifier) send(state string) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	if _, err := sd.SdNotify(false, state); err != nil {
		n.log.Warn("systemd not notified", "err", err)
	}
}

func (n *notifier) ready(status string) { n.sendUnlessStopped(sd.SdNotifyReady + "\nSTATUS=" + status) }

// stopping ends what ready and reloading say: a daemon that drains is not ready again.
func (n *notifier) stopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	n.send(sd.SdNotifyStopping + "\nSTATUS=draining")
}

func (n *notifier) sendUnlessStopped(state string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopped {
		n.send(state)
	}
}

// reloading begins a reload. The time lets systemd tell this READY from an older one; it must
// be CLOCK_MONOTONIC's, in microseconds. A reload that failed ends with READY as well: the
// daemon is as ready as before.
func (n *notifier) reloading() {
	now, err := monotonicUsec()
	if err != nil {
		n.log.Warn("systemd not notified", "err", err)
		return
	}
	n.sendUnlessStopped(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", sd.SdNotifyReloading, now))
}

func monotonicUsec() (int64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("clock_gettime: %w", err)
	}
	return now.Nano() / 1000, nil
}

// watchdog pings systemd's watchdog, where the unit has one, for as long as the scheduler's
// loop goes round. A daemon whose loop stands still is not pinged for: systemd restarts it.
// It ends when ended is closed.
func (n *notifier) watchdog(ended <-chan struct{}, progress func() time.Time) {
	every, err := sd.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("watchdog not served", "err", err)
	}
	if err != nil || every == 0 {
		return
	}
	tick := time.NewTicker(every / 2) // as sd_watchdog_enabled(3) advises
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if still := time.Since(progress()); still < every {
				n.send(sd.SdNotifyWatchdog)
			} else {
				n.log.Error("scheduler loop stands still", "since", progress(), "effect", "the watchdog is not pinged")
			}
		case <-ended:
			return
		}
	}
}
