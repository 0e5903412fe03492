//go:build linux

package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cgroupsPrefix begins the name of a daemon's own cgroup in the delegated one. No file of the
// kernel's begins like it.
const cgroupsPrefix = "rota-"

// sweepPatience is how long a daemon that starts waits for the processes of an earlier one to end.
const sweepPatience = 5 * time.Second

// sweep ends what earlier daemons left in the delegated cgroup, and removes it, unless they or their
// wardens still live. ended are the runs that had live processes.
//
// The error says what is left: processes that hang in the kernel, for a start. Nothing of theirs
// stands in the way of [cgroupSite.open].
func (s cgroupSite) sweep(ctx context.Context) (ended []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sweepPatience,
		fmt.Errorf("processes of an earlier daemon still live after %v", sweepPatience))
	defer cancel()
	children, err := cgroupDir(s.dir).children()
	for _, dir := range children {
		if !strings.HasPrefix(path.Base(string(dir)), cgroupsPrefix) {
			continue
		}
		lock, lockErr := dir.lock()
		if lockErr != nil {
			continue // in use, or gone
		}
		runs, runsErr := dir.children()
		for _, run := range runs {
			if run.populated() {
				ended = append(ended, strings.TrimPrefix(path.Base(string(run)), runPrefix))
			}
		}
		killErr := errors.Join(runsErr, dir.end(ctx))
		if killErr == nil {
			killErr = dir.remove()
		}
		// Unlocked last: of two daemons that start, one does it.
		err = errors.Join(err, killErr, lock.Close())
	}
	return ended, err
}

// open makes a place for this daemon's runs in the delegated cgroup, and moves this process, with
// all its threads, into the leaf beside it. Its children stay where they are, so it is called before
// there are any.
//
// The error is why there is no place, for one line of the log; runs then have no cgroups.
func (s cgroupSite) open() (*cgroups, error) {
	if err := canCloneIntoCgroup(); err != nil {
		return nil, err
	}
	if s.inside {
		leaf := cgroupDir(path.Join(s.dir, cgroupLeaf))
		if err := os.Mkdir(string(leaf), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := leaf.write("cgroup.procs", "0"); err != nil { // 0 is who writes
			return nil, err
		}
	}
	dir, lock, err := makeLocked(s.dir)
	if err != nil {
		return nil, err
	}
	c := &cgroups{dir: dir, held: lock, lacks: map[string]error{}}
	for _, name := range controllers() {
		if slices.Contains(s.v1, name) {
			c.lacks[name] = inV1(name)
			continue
		}
		err := cgroupDir(s.dir).enable(name)
		if err == nil {
			err = dir.enable(name)
		}
		if err != nil {
			c.lacks[name] = err
		}
	}
	return c, nil
}

// makeLocked makes a cgroup in site and locks it. Until it is locked the sweep of another daemon may
// take it for an old one; then there is another.
func makeLocked(site string) (dir cgroupDir, lock *os.File, err error) {
	for range 10 {
		dir = cgroupDir(path.Join(site, cgroupsPrefix+rand.Text()[:10]))
		if err := os.Mkdir(string(dir), 0o755); err != nil {
			return "", nil, err
		}
		if lock, err = dir.lock(); err != nil {
			continue
		}
		if _, err = os.Stat(string(dir)); err == nil {
			return dir, lock, nil
		}
		lock.Close()
	}
	return "", nil, err
}

// lock locks the cgroup's directory (flock(2)) until the file is closed, here and wherever it was
// handed to. The error matches unix.EWOULDBLOCK if somebody else has.
func (d cgroupDir) lock() (*os.File, error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", d, err)
	}
	return f, nil
}

// enable lets the cgroups in d have a controller. Of the kernel's refusals, which are numbers, it
// explains the usual ones.
func (d cgroupDir) enable(controller string) error {
	has, err := d.read("cgroup.controllers")
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(string(has)), controller) {
		return fmt.Errorf("the controller %s is not delegated", controller)
	}
	err = d.write("cgroup.subtree_control", "+"+controller)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("the controller %s cannot be enabled: there are other processes in %s itself", controller, d)
	}
	return err
}

// canCloneIntoCgroup says what keeps this process from starting others in a cgroup
// (CLONE_INTO_CGROUP in clone(2), Linux 5.7). To move them there afterwards would leave behind what
// they forked meanwhile.
//
// It asks for what cannot be, twice, so that nothing is cloned. A kernel that knows the cgroup's
// field gets to see that and says EINVAL; to an older one the arguments are too long, E2BIG, or it
// has no clone3 at all; a filter of seccomp(2) says ENOSYS or EPERM.
func canCloneIntoCgroup() error {
	const exitSignal, cgroup = 4, 10 // in struct clone_args
	args := [11]uint64{0: unix.CLONE_INTO_CGROUP, exitSignal: 1 << 40, cgroup: 1 << 40}
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != unix.EINVAL {
		return fmt.Errorf("the kernel, or a filter of system calls, starts no process in a cgroup: %w", errno)
	}
	return nil
}
