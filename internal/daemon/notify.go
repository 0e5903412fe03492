package daemon

import (
	"log/slog"
	"os"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// notifier tells systemd how the daemon stands (sd_notify(3)). Outside systemd it says nothing.
type notifier struct{ log *slog.Logger }

func (n *notifier) send(state string) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	if _, err := sd.SdNotify(false, state); err != nil {
		n.log.Warn("systemd not notified", "err", err)
	}
}

func (n *notifier) ready(status string) { n.send(sd.SdNotifyReady + "\nSTATUS=" + status) }

func (n *notifier) stopping() { n.send(sd.SdNotifyStopping + "\nSTATUS=draining") }
