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
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// runPrefix begins the names of the runs' cgroups, idBytes are what may follow: a ULID, say.
	runPrefix = "run-"
	idBytes   = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// cgroups are those of one daemon's runs:
//
//	DELEGATED/           holds no process, so that controllers can be enabled
//	├── daemon/          the daemon and its warden
//	└── rota-K7QXJ2…/    locked as long as the daemon or its warden lives
//	    ├── run-01JD…/   one attempt, and all that it forks
//	    └── run-01JE…/
//
// What a process forks is in its cgroup, whatever its session, parent or environment. It leaves only
// if somebody moves it who may: systemd for systemd-run(1), a login's session, a container's
// manager; or itself, on purpose, if it runs as root or as the daemon's own user.
//
// They may be used by several goroutines, and by the daemon and its warden at a time.
type cgroups struct {
	dir   cgroupDir
	held  *os.File         // the lock of dir
	lacks map[string]error // controllers that the runs do not get, with the reason
}

// adoptCgroups is for the warden: the cgroups of its daemon, by their directory and the lock that it
// was handed.
func adoptCgroups(dir string, lock *os.File) *cgroups {
	return &cgroups{dir: cgroupDir(dir), held: lock}
}

// lock is to be handed to the warden, so that the cgroups count as in use while it lives. It stays
// c's to close.
func (c *cgroups) lock() *os.File { return c.held }

// lacking says which of the limits no run here can have, an error for each, joined, and why; nil if none.
func (c *cgroups) lacking(l Limits) error {
	var lacking []error
	for _, s := range l.settings() {
		if !s.optional && c.lacks[s.controller] != nil {
			lacking = append(lacking, s.unset(c.lacks))
		}
	}
	return errors.Join(lacking...)
}

// add makes the cgroup of an attempt. unset says which limits do not hold in it, a line for each;
// the attempt may run all the same.
//
// The error is for an attempt that cannot have a cgroup. It matches fs.ErrExist if processes of an
// earlier attempt of the same run still live in theirs.
func (c *cgroups) add(run string, l Limits) (added *runCgroup, unset, err error) {
	dir, ok := c.of(run)
	if !ok {
		return nil, nil, fmt.Errorf("cgroup of run %q: no cgroup can have that name", run)
	}
	err = os.Mkdir(string(dir), 0o755)
	if errors.Is(err, fs.ErrExist) && dir.remove() == nil {
		err = os.Mkdir(string(dir), 0o755)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cgroup of run %q: %w", run, err)
	}
	unset = dir.limit(l, c.lacks)
	fd, err := unix.Open(string(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cgroup of run %q: %w", run, errors.Join(err, dir.remove()))
	}
	return &runCgroup{dir, fd}, unset, nil
}

// end kills every process of every run, and waits for that.
func (c *cgroups) end(ctx context.Context) error { return c.dir.end(ctx) }

// settable leaves of the limits those that a run here can have.
func (c *cgroups) settable(l Limits) Limits {
	if c == nil || c.lacks["memory"] != nil {
		l.MemoryBytes = 0
	}
	if c == nil || c.lacks["cpu"] != nil {
		l.CPUPercent = 0
	}
	if c == nil || c.lacks["pids"] != nil {
		l.Tasks = 0
	}
	return l
}

// of is the directory of a run's cgroup, which need not be there. ok is false if it cannot be.
func (c *cgroups) of(run string) (dir cgroupDir, ok bool) {
	if c == nil || run == "" || strings.Trim(run, idBytes) != "" {
		return "", false
	}
	return cgroupDir(c.dir.file(runPrefix + run)), true
}

// close gives the cgroups up and removes them: after the last run, and in the daemon after its
// warden. The error says that some still has processes; the next daemon's sweep will find them.
func (c *cgroups) close() error { return errors.Join(c.dir.remove(), c.held.Close()) }

// A runCgroup is the cgroup of one attempt.
type runCgroup struct {
	cgroupDir
	fd int // of the directory; -1 once it is removed
}

// holds tells whether a process is in the cgroup or below, by its /proc/PID/cgroup (cgroups(7)). That
// names it from the root of our own cgroup namespace, wherever its mount is.
func (r *runCgroup) holds(pid int, buf *[]byte) bool {
	text, err := readAll("/proc/"+strconv.Itoa(pid)+"/cgroup", buf)
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		if at, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			_, below, found := bytes.Cut(at, r.name())
			return found && (len(below) == 0 || below[0] == '/' || below[0] == '\n')
		}
	}
	return false
}

// name is the end of the cgroup's path, which no other one has: there is chance in it.
func (r *runCgroup) name() []byte {
	dir, run := path.Split(string(r.cgroupDir))
	return []byte("/" + path.Base(dir) + "/" + run)
}

// into has a process started in the cgroup.
func (r *runCgroup) into(attr *syscall.SysProcAttr) { attr.UseCgroupFD, attr.CgroupFD = true, r.fd }

// remove removes the cgroup once nothing lives in it, with those that the run made in it, and lets
// go of it in any case. Nothing else may be called after it, or meanwhile.
func (r *runCgroup) remove() error {
	if r.fd >= 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
	return r.cgroupDir.remove()
}
