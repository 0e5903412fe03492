//go:build linux

package jobs

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// members are the processes of one run, however they are known: [procs] searches the whole of /proc
// for them, [family] is those that came from the run's main process, in the warden, and [confined] is
// those that are in the run's cgroup, with the family besides.
type members interface {
	// alive tells whether any lives besides the main process.
	alive() bool

	// signal sends the signals to every one there is, the main process too, one signal after the
	// other. What it cannot signal changes nothing: what lives is waited for.
	signal(sigs ...syscall.Signal)
}

// What is sent to a run. A stopped process acts on SIGTERM only when it is continued
// (systemd.kill(5) does so, too).
var (
	termSignals = []syscall.Signal{unix.SIGTERM, unix.SIGCONT}
	killSignals = []syscall.Signal{unix.SIGKILL}
)

// signalGroup sends signals to a whole process group at once: the kernel lets no member fork in
// between.
func signalGroup(group int, sigs []syscall.Signal) {
	for _, sig := range sigs {
		_ = syscall.Kill(-group, sig)
	}
}
