//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// wardenName is the name that the warden is started under, and by which it knows that it is one.
const wardenName = "rota-warden"

// Where the warden has its end of the connection and, if runs get cgroups, the lock of these. Their
// directory is its one argument.
const (
	wardenSocket = 3
	wardenLock   = 4
)

// IsWarden tells whether this process was started to be a [Warden]'s. A program that uses one asks
// first thing in main:
//
//	if jobs.IsWarden() {
//		os.Exit(jobs.ServeWarden())
//	}
func IsWarden() bool { return len(os.Args) > 0 && os.Args[0] == wardenName }

// ServeWarden makes this process the warden of the daemon that started it. It returns when that daemon
// has let go of it, or is gone, and every run has been killed: 0, or 1 if it could not serve or could
// not kill them. It takes the process over as a whole: its signals, its children, its memory.
func ServeWarden() int {
	s, err := newServer(wardenSocket, inheritedCgroups())
	if err != nil {
		fmt.Fprintln(os.Stderr, "rota: warden:", err)
		return 1
	}
	if !s.serve() {
		return 1
	}
	return 0
}

// inheritedCgroups are those that the daemon has for its runs, nil if none.
func inheritedCgroups() *cgroups {
	if len(os.Args) < 2 {
		return nil
	}
	return adoptCgroups(os.Args[1], os.NewFile(wardenLock, os.Args[1]))
}

// newServer prepares the process.
func newServer(conn int, c *cgroups) (*server, error) {
	if kind, err := unix.GetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, errors.New("there is no daemon: it is started by one, not by hand")
	}
	markInherited()
	// What runs leave behind comes here, and to nobody else (PR_SET_CHILD_SUBREAPER in prctl(2)).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	if _, err := os.Stat("/proc/self"); err != nil {
		return nil, errors.New("/proc is not mounted")
	}
	// Cosmetic: it was started by way of /proc/self/exe, and ps(1) would show that.
	_ = os.WriteFile("/proc/self/comm", []byte(wardenName), 0)

	bell, err := newBell()
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", os.DevNull, err)
	}
	// The collector stops all threads to begin, and one that waits for an exec on a file system that
	// hangs does not stop. So it is run by hand, see server.collect.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(math.MaxInt64)

	marks := newMarks()
	s := &server{
		conn: conn, timer: timer, bell: bell, cgroups: c, spawner: newSpawner(marks, c, null, bell),
		runs: map[runID]*served{}, mains: map[int]*served{},
		orphans: orphans{tree: newTree(), marks: marks, environs: newEnvirons(), bell: bell, all: map[int]*orphan{}},
		packet:  make([]byte, maxPacket),
	}
	s.listen()
	s.post(readyMessage{marks.base})
	return s, nil
}

// listen has the loop woken when a child ends, and keeps the signals that are meant for the daemon from
// ending the warden: what stops the daemon stops it, too. They are taken and dropped, not ignored,
// which runs would inherit.
func (s *server) listen() {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			s.died.Store(true)
			s.bell.ring()
		}
	}()
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2)
}

// markInherited marks what this process was started with as close-on-exec. It is best effort: without
// /proc no Command starts.
func markInherited() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
