//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxDescriptors is how many descriptors one packet brings at most: the program's, and what did not fit.
const maxDescriptors = standardFiles + 1

// socketBuffer is what both ends ask for, in bytes; the kernel gives what net.core.wmem_max allows,
// and that is enough too. A burst of renewals then finds room at once.
const socketBuffer = 1 << 20

// socketPair returns the two ends of a connection. Neither blocks, and both are closed by exec.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	for _, fd := range fds {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
	}
	return os.NewFile(uintptr(fds[0]), "warden"), os.NewFile(uintptr(fds[1]), "daemon"), nil
}

// send sends one packet with descriptors, or returns unix.EAGAIN if there is no room for it.
func send(fd int, packet []byte, descriptors ...int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	for {
		err := unix.Sendmsg(fd, packet, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads one packet into buf, or returns unix.EAGAIN if there is none. The end of the
// connection is io.EOF. The descriptors are the caller's to close, also with an error; they are
// closed by exec.
//
// Where the process has no descriptor free, the kernel drops those of the packet and delivers the
// rest (recvmsg(2), MSG_CTRUNC): there are fewer then than the packet says.
func receive(fd int, buf []byte) (packet []byte, descriptors []int, err error) {
	oob := make([]byte, unix.CmsgSpace(maxDescriptors*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, buf, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ECONNRESET) || err == nil && n == 0 && oobn == 0 {
			// Reset: the other end was closed with packets in it that it had not read.
			return nil, nil, io.EOF
		}
		if err != nil {
			return nil, nil, err
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		for i := range messages {
			fds, rightsErr := unix.ParseUnixRights(&messages[i])
			descriptors = append(descriptors, fds...)
			err = errors.Join(err, rightsErr)
		}
		if flags&unix.MSG_TRUNC != 0 {
			err = errors.Join(err, errMalformed)
		}
		return buf[:n], descriptors, err
	}
}

// closeAll closes descriptors that nobody wants.
func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// inMemory returns a file in memory that holds b (memfd_create(2)), for what is too long for a
// packet.
func inMemory(b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("rota", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "spec")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readMemory reads n bytes of such a file.
func readMemory(fd, n int) ([]byte, error) {
	b := make([]byte, n)
	for at := 0; at < n; {
		m, err := unix.Pread(fd, b[at:], int64(at))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		at += m
	}
	return b, nil
}
