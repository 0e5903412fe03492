//go:build linux

package jobs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCgroups_WholeLife(t *testing.T) {
	site := testCgroup(t)
	delegated := cgroupDir(site.file("..")).enableAll(t)
	daemon := startDaemon(t, site, "R1", noSystemd)
	leaf := cgroupDir(site.file(cgroupLeaf))
	daemon.says(t, up(site, true, "", leaf)...)
	if pids, err := site.pids(); err != nil || len(pids) > 0 {
		t.Errorf("processes in the delegated cgroup itself: %v, %v; want none, or no controller can be enabled", pids, err)
	}
	enabled := strings.Fields(filesOfOne(t, site, "cgroup.subtree_control"))
	if slices.Sort(enabled); !slices.Equal(enabled, delegated) {
		t.Errorf("controllers for the runs: %q, want all that were delegated, %q", enabled, delegated)
	}
	daemon.stdin.Close()
	daemon.says(t, "end: <nil> <nil> <nil>")
	_ = daemon.Wait()
	children, err := site.children()
	if err != nil || !slices.Equal(children, []cgroupDir{leaf}) {
		t.Errorf("left in the delegated cgroup: %v, %v; want the leaf alone", children, err)
	}
}

// What a daemon left is ended by the next one, but not what one that lives has. Those that come later
// start in the leaf, as with DelegateSubgroup=: no process may come into the delegated cgroup itself
// once it has controllers enabled.
func TestCgroupSite_Sweep(t *testing.T) {
	systemd := t.TempDir()
	site := testCgroup(t)
	if err := unix.Setxattr(string(site), "user.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	leaf := cgroupDir(site.file(cgroupLeaf))
	first := startDaemon(t, site, "R1", systemd)
	first.says(t, up(site, true, "", leaf)...)

	second := startDaemon(t, leaf, "R2", systemd)
	second.says(t, up(site, false, "", leaf)...)

	_ = first.Process.Kill()
	_ = first.Wait()
	third := startDaemon(t, leaf, "R3", systemd)
	third.says(t, up(site, false, "R1", leaf)...)

	children, err := site.children()
	if err != nil || len(children) != 3 {
		t.Errorf("in the delegated cgroup: %v, %v; want the leaf and those of two daemons", children, err)
	}
	for _, d := range []cgroupDaemon{second, third} {
		d.stdin.Close()
		d.says(t, "end: <nil> <nil> <nil>")
	}
}

// A warden that holds the lock keeps its dead daemon's runs from the next one.
func TestCgroupSite_SweepLeavesAWardensRuns(t *testing.T) {
	site := cgroupSite{dir: string(testCgroup(t))}
	c, err := site.open()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(c.lock().Fd(), unix.F_DUPFD_CLOEXEC, 0) // as a child inherits it
	if err != nil {
		t.Fatal(err)
	}
	warden := adoptCgroups(string(c.dir), os.NewFile(uintptr(fd), "lock"))
	run, unset, err := warden.add("R1", Limits{})
	if err != nil || unset != nil {
		t.Fatalf("add = %v, %v; want neither", unset, err)
	}
	startIn(t, run, "echo ready; exec sleep 300")
	c.lock().Close() // the daemon dies

	if ended, err := site.sweep(t.Context()); len(ended) > 0 || err != nil {
		t.Errorf("sweep() = %q, %v while the warden lives; want none", ended, err)
	}
	if !run.populated() {
		t.Error("the run is gone, want it left to its warden")
	}
	if err := warden.close(); err == nil {
		t.Error("close() = nil while a run lives, want an error")
	}
	if ended, err := site.sweep(t.Context()); !slices.Equal(ended, []string{"R1"}) || err != nil {
		t.Errorf("sweep() = %q, %v when the warden is gone; want R1", ended, err)
	}
}

// Where systemd runs, it has to say that a cgroup is delegated: that one or, with
// DelegateSubgroup=daemon, the one around it.
func TestCgroupFinder_AsksSystemd(t *testing.T) {
	systemd := t.TempDir()
	for _, c := range []struct {
		name       string
		mark       string
		value      string
		in         string // the cgroup that the daemon starts in, below the unit's
		ok, inside bool
	}{
		{"not at all", "user.delegate", "0", "", false, false},
		{"not at all, in what looks like the leaf", "user.delegate", "0", cgroupLeaf, false, false},
		{"as systemd 251 and later", "user.delegate", "1", "", true, true},
		{"before 251", "trusted.delegate", "1", "", true, true},
		{"with a subgroup", "user.delegate", "1", cgroupLeaf, true, false},
		{"with somebody else's subgroup", "user.delegate", "1", "other", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			unit := testCgroup(t)
			if err := unix.Setxattr(string(unit), c.mark, []byte(c.value), 0); err != nil {
				t.Fatal(err)
			}
			in := cgroupDir(unit.file(c.in))
			if err := os.MkdirAll(string(in), 0o755); err != nil {
				t.Fatal(err)
			}
			daemon := startDaemon(t, in, "R1", systemd)
			if !c.ok {
				daemon.says(t, "none: systemd did not delegate "+pathInTree(in)+": its unit has no Delegate=")
				return
			}
			daemon.says(t, up(unit, c.inside, "", cgroupDir(unit.file(cgroupLeaf)))...)
			daemon.stdin.Close()
			daemon.says(t, "end: <nil> <nil> <nil>")
		})
	}
}

// A unit with User= gets its cgroup made over to that user, as systemd does it: the directory and
// the files of /sys/kernel/cgroup/delegate.
func TestCgroups_WithoutPrivileges(t *testing.T) {
	const nobody = 65534
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := copyOf(t, self)
	unit := testCgroup(t)
	as := func(cmd *exec.Cmd) {
		cmd.Args[len(cmd.Args)-1] = binary
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	systemd := filepath.Dir(binary) // everybody may look there
	startDaemon(t, unit, "R1", noSystemd, as).says(t, "none: "+string(unit)+" may not be written: permission denied")
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(unit.file(name), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	// The mark that it may read is one of systemd 251 and later. Before, the owner tells.
	daemon := startDaemon(t, unit, "R1", systemd, as)
	daemon.says(t, up(unit, true, "", cgroupDir(unit.file(cgroupLeaf)))...)
	daemon.stdin.Close()
	daemon.says(t, "end: <nil> <nil> <nil>")
}

// copyOf is a file where everybody may execute it.
func copyOf(t *testing.T, file string) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "test")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// In a namespace of its own a process sees its cgroup as the root, and finds it only in a mount that
// begins there, which is what a container has.
func TestCgroupFinder_InANamespace(t *testing.T) {
	site := testCgroup(t)
	inside := func(cmd *exec.Cmd) {
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS
	}
	outer := startDaemon(t, site, "R1", noSystemd, inside)
	outer.says(t, "none: no mount of cgroup v2 shows this process' cgroup /")

	dir := t.TempDir()
	mounted := startDaemon(t, site, "R1", noSystemd, inside, func(cmd *exec.Cmd) {
		cmd.Args[2] = "mount -t cgroup2 none " + dir + " && " + cmd.Args[2]
	})
	mounted.says(t,
		"site: "+dir+" true", "swept: [] <nil>", "now in: /daemon", "run: <nil> <nil>", "main: <nil>", "lives: true")
	mounted.stdin.Close()
	mounted.says(t, "end: <nil> <nil> <nil>")
}

// An id that is no name of a directory of ours is refused before anything is made.
func TestCgroups_AddNames(t *testing.T) {
	c := testCgroups(t)
	for _, id := range []string{"", ".", "..", "a/b", "../a", "a b", "a\n", "ä"} {
		if run, _, err := c.add(id, Limits{}); err == nil {
			t.Errorf("add(%q) = %s, want an error", id, run.cgroupDir)
		}
	}
	run, _, err := c.add("01JDZZZZZZZZZZZZZZZZZZZZZZ", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := c.add("01JDZZZZZZZZZZZZZZZZZZZZZZ", Limits{})
	if err != nil {
		t.Fatalf("add of a run whose earlier attempt left an empty cgroup = %v, want one", err)
	}
	startIn(t, again, "echo ready; exec sleep 300")
	if _, _, err := c.add("01JDZZZZZZZZZZZZZZZZZZZZZZ", Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("add of a run whose earlier attempt lives = %v, want one that matches fs.ErrExist", err)
	}
	unix.Close(run.fd)
}

// A daemon that comes up while others sweep gets a place all the same.
func TestCgroupSite_OpensUnderSweeps(t *testing.T) {
	site := cgroupSite{dir: string(testCgroup(t))}
	ctx, cancel := context.WithCancel(t.Context())
	var sweepers sync.WaitGroup
	for range 2 {
		sweepers.Go(func() {
			for ctx.Err() == nil {
				if ended, err := site.sweep(ctx); len(ended) > 0 || err != nil && ctx.Err() == nil {
					t.Errorf("sweep() = %q, %v; want nothing", ended, err)
					return
				}
			}
		})
	}
	for range 200 {
		c, err := site.open()
		if err != nil {
			t.Errorf("open() = %v", err)
			break
		}
		if _, err := os.Stat(string(c.dir)); err != nil {
			t.Errorf("the place: %v", err)
			break
		}
		if err := c.close(); err != nil {
			t.Errorf("close() = %v", err)
			break
		}
	}
	cancel()
	sweepers.Wait()
}
