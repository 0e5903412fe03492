//go:build linux

package warden

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// delegate makes a cgroup that a daemon takes for delegated. Cgroup v2 is mounted for that, which needs
// root. It goes at the end; whoever is in it by then is killed.
func delegate(tb testing.TB) string {
	tb.Helper()
	mount := tb.TempDir()
	if err := unix.Mount("none", mount, "cgroup2", 0, ""); err != nil {
		tb.Fatalf("mount -t cgroup2: %v", err)
	}
	dir := filepath.Join(mount, "rota-bench-"+rand.Text()[:8])
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	// Where systemd runs the machine, that is its mark.
	_ = unix.Setxattr(dir, "user.delegate", []byte("1"), 0)
	tb.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(mount, "cgroup.procs"), []byte("0"), 0) // this process, if it is in it
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		for range 100 {
			if remove(dir) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// enter moves this process into a cgroup.
func enter(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
		tb.Fatal(err)
	}
}

// in has a process start in a cgroup.
func in(tb testing.TB, dir string) *syscall.SysProcAttr {
	tb.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	return &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
}

// remove removes a cgroup and those in it.
func remove(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && err == nil {
			err = remove(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(dir)
}
