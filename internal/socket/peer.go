package socket

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A peer is the process that connected. Its number may pass to another process when it ends; the
// descriptor is of it alone.
type peer struct {
	pid   int
	pidfd int
}

// peerOf asks the kernel who connected. Since Linux 6.5 it answers with a descriptor (SO_PEERPIDFD); before,
// one is made of the number, which may just have passed to a process that was started since.
func peerOf(conn *net.UnixConn) (p peer, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p.pid = int(cred.Pid)
		p.pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(err, unix.ENOPROTOOPT) {
			p.pidfd, err = unix.PidfdOpen(p.pid, 0)
		}
	})
	if err = errors.Join(controlErr, err); err != nil {
		return p, fmt.Errorf("who connected: %w", err)
	}
	return p, nil
}

// lives tells whether the process has not ended. What was read under its number before is its own then.
func (p peer) lives() bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && n == 0 // it can be read once the process has ended (pidfd_open(2))
		}
	}
}

func (p peer) close() { _ = unix.Close(p.pidfd) }
