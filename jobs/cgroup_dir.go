//go:build linux

package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// cgroupPoll is how often a cgroup is looked at without a word of the kernel that something changed.
	// There is none when it is removed.
	cgroupPoll = time.Second

	// removeTries and removePause are for the last of the kernel's own work on a cgroup that has just
	// become empty.
	removeTries = 50
	removePause = 2 * time.Millisecond
)

// A cgroupDir is the directory of a cgroup that we made, with everything below it. The files in it
// are those of the kernel's Documentation/admin-guide/cgroup-v2.rst. It may be used by several
// goroutines.
type cgroupDir string

// file is a file of the kernel's in it.
func (d cgroupDir) file(name string) string { return path.Join(string(d), name) }

// read returns what a file of it says; the error is fs.ErrNotExist if there is none, which is how
// the kernel says that the controller is not enabled, or that it is older than the file.
func (d cgroupDir) read(name string) ([]byte, error) { return os.ReadFile(d.file(name)) }

// write tells the kernel something. It makes no file: os.WriteFile would ask for that.
func (d cgroupDir) write(name, value string) error {
	f, err := os.OpenFile(d.file(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// value finds the line of a file that begins with key and returns the number behind it.
func (d cgroupDir) value(name, key string) (int64, error) {
	text, err := d.read(name)
	if err != nil {
		return 0, err
	}
	return keyed(text, key)
}

// keyed reads a flat keyed file: one "KEY NUMBER" a line.
func keyed(text []byte, key string) (int64, error) {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(key+" ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %q in %q", key, text)
}

// pids are the processes of the cgroup itself. One that this process' pid namespace does not have
// shows as 0 and is left out: to signal it would be to signal ourselves.
func (d cgroupDir) pids() ([]int, error) {
	text, err := d.read("cgroup.procs")
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // threaded: its processes are listed further up
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// children are the cgroups in it; one that is gone has none.
func (d cgroupDir) children() ([]cgroupDir, error) {
	entries, err := os.ReadDir(string(d))
	var dirs []cgroupDir
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, cgroupDir(d.file(e.Name())))
		}
	}
	if gone(err) {
		err = nil
	}
	return dirs, err
}

// walk calls visit for the cgroup and those below it, the outer ones first.
func (d cgroupDir) walk(visit func(cgroupDir) error) error {
	err := visit(d)
	children, readErr := d.children()
	err = errors.Join(err, readErr)
	for _, child := range children {
		err = errors.Join(err, child.walk(visit))
	}
	return err
}

// populated tells whether any process lives in it or below. Zombies do not count. If it cannot tell,
// it says yes; a cgroup that was removed had none.
func (d cgroupDir) populated() bool {
	n, err := d.value("cgroup.events", "populated")
	if err != nil {
		return !gone(err)
	}
	return n != 0
}

// wait returns nil once no process lives in the cgroup or below, or ctx' cause. A process that hangs
// in the kernel lives.
func (d cgroupDir) wait(ctx context.Context) error { return d.await(ctx, "populated", 0) }

// await waits until cgroup.events says so. The kernel wakes who polls the file (POLLPRI), through
// the runtime's poller here, so that hundreds of waits take no threads.
func (d cgroupDir) await(ctx context.Context, key string, want int64) error {
	fd, err := unix.Open(d.file("cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.file("cgroup.events"), err)
	}
	events := os.NewFile(uintptr(fd), d.file("cgroup.events"))
	defer events.Close()
	conn, err := events.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = events.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		if err := events.SetReadDeadline(time.Now().Add(cgroupPoll)); err != nil {
			return err
		}
		if ctx.Err() != nil { // its deadline may have been overwritten just now
			if value, err := d.value("cgroup.events", key); err == nil && value == want || gone(err) {
				return nil
			}
			return context.Cause(ctx)
		}
		var readErr error
		err := conn.Read(func(fd uintptr) bool {
			buf := make([]byte, 256)
			n, err := unix.Pread(int(fd), buf, 0)
			if gone(err) {
				return true
			}
			var value int64
			if err == nil {
				value, err = keyed(buf[:n], key)
			}
			readErr = err
			return err != nil || value == want
		})
		switch {
		case err == nil:
			return readErr
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
}

// remove removes the cgroup and those below it, the inner ones first. One with processes stays, and
// is the error.
func (d cgroupDir) remove() error {
	children, err := d.children()
	for _, child := range children {
		err = errors.Join(err, child.remove())
	}
	if err != nil {
		return err
	}
	for range removeTries {
		if err = os.Remove(string(d)); !errors.Is(err, unix.EBUSY) || d.populated() {
			break
		}
		time.Sleep(removePause)
	}
	if gone(err) {
		return nil
	}
	return err
}

// gone tells that there is no such cgroup any more. Its open files then say ENODEV.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
