package config

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// readLease takes a read lease on a file (fcntl(2), "Leases"). While it is held, nobody has the
// file open for writing: who opens it waits until release is called, 45 s at most, and truncate(2)
// waits likewise.
//
// The error is errWriting if somebody has it open already. Any other means that there is no lease
// to be had: the file is another user's and this process may not have it all the same (CAP_LEASE),
// or its file system has none.
func readLease(f *os.File) (release func(), err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("config: lease: %w", err)
	}
	onFile := func(do func(fd int) error) error {
		var done error
		if err := conn.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
			return err
		}
		return done
	}
	err = onFile(func(fd int) error {
		if elsewhere(fd) {
			return errors.ErrUnsupported
		}
		// A lease that somebody waits for is announced by a signal. SIGIO, which it is by default, would
		// be seen by who asks for all signals; of SIGURG Go's runtime takes any number.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG)); err != nil {
			return err
		}
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	})
	if errors.Is(err, unix.EAGAIN) {
		return nil, errWriting
	}
	if err != nil {
		return nil, fmt.Errorf("config: lease: %w", err)
	}
	return func() {
		_ = onFile(func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
			return err
		})
	}, nil
}

// elsewhere tells whether a file lies on a file system that other machines write to as well, or
// programs of this one behind the kernel's back. Their writers are not seen by a lease, and some
// refuse one with EAGAIN for reasons of their own.
func elsewhere(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	return slices.Contains([]int64{
		unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC,
		unix.OCFS2_SUPER_MAGIC,
	}, int64(st.Type)) //nolint:unconvert // it has 32 bits on some architectures
}
