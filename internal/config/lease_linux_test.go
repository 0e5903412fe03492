package config

import (
	"cmp"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func makeFIFO(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// open opens a file of t.TempDir, which this user owns and which lies on a file system of this
// machine: here there must be leases.
func open(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestReadLease_TellsWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	writer := open(t, path, os.O_CREATE|os.O_WRONLY)
	reader := open(t, path, os.O_RDONLY)
	if _, err := readLease(reader); !errors.Is(err, errWriting) {
		t.Errorf("readLease of a file that is open for writing = %v, want errWriting", err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second reader needs no permission of the first
		if _, err := readLease(open(t, path, os.O_RDONLY)); err != nil {
			t.Errorf("readLease = %v, want the lease", err)
		}
	}
	dir := open(t, filepath.Dir(path), os.O_RDONLY)
	if _, err := readLease(dir); err == nil || errors.Is(err, errWriting) {
		t.Errorf("readLease of a directory = %v, want that there is none", err)
	}
}

// Of another user's file there is no lease, which says nothing about writers: fcntl(2) has it
// that the caller owns the file or has CAP_LEASE.
func TestReadLease_OfAnothersFile(t *testing.T) {
	path := "/etc/passwd" // whoever runs this, unless it is root
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	file := open(t, path, os.O_RDONLY)
	done := make(chan error)
	go func() {
		// Capabilities are the thread's, which ends with this goroutine, since it is not unlocked.
		runtime.LockOSThread()
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		err := unix.Capget(&head, &caps[0])
		caps[0].Effective &^= 1 << unix.CAP_LEASE
		if err = cmp.Or(err, unix.Capset(&head, &caps[0])); err == nil {
			_, err = readLease(file)
		}
		done <- err
	}()
	if err := <-done; !errors.Is(err, unix.EACCES) {
		t.Errorf("readLease of another's file = %v, want EACCES", err)
	}
}

// A writer waits for the lease, no longer than that, and its waiting is no signal that anybody
// sees: SIGIO ends a process that does not handle it (signal(7)).
func TestReadLease_WritersWaitInSilence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	reader := open(t, path, os.O_CREATE|os.O_RDONLY)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGIO)
	defer signal.Stop(signals)

	release, err := readLease(reader)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Errorf("a writer opened the file under the lease: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	select {
	case err := <-opened:
		if err != nil {
			t.Errorf("the writer = %v, want the file after the lease", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the writer still waits after the lease was given up")
	}
	select {
	case sig := <-signals:
		t.Errorf("the process got %s", sig)
	default:
	}
}
