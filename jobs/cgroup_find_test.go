//go:build linux

package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseOwnCgroup_Layouts(t *testing.T) {
	for _, c := range []struct{ name, text, own, v1, err string }{
		{"unified", "0::/system.slice/rota.service\n", "/system.slice/rota.service", "", ""},
		{
			"hybrid", "4:memory:/a\n2:cpu,cpuacct:/\n1:name=systemd:/a\n0::/system.slice/rota.service\n",
			"/system.slice/rota.service", "memory cpu cpuacct name=systemd", "",
		},
		{"a namespace of its own", "0::/\n", "/", "", ""},
		{"colons", "0::/a:b\n", "/a:b", "", ""},
		{"v1 alone", "4:memory:/a\n", "", "", "this kernel has no cgroup v2"},
		{"nothing", "", "", "", "this kernel has no cgroup v2"},
		{"removed", "0::/a (deleted)\n", "", "", "this process' cgroup /a was removed"},
		{"outside", "0::/../b\n", "", "", "this process' cgroup /../b is outside of its cgroup namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, v1, err := parseOwnCgroup(c.text)
			if own != c.own || strings.Join(v1, " ") != c.v1 || said(err) != c.err {
				t.Errorf("parseOwnCgroup(%q) = %q, %q, %v; want %q, %q, %s", c.text, own, v1, err, c.own, c.v1, c.err)
			}
		})
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A fakeHost is a folder with a /proc/self and a cgroup tree in which this process is in one cgroup.
type fakeHost struct {
	root, own string // own is that cgroup's path in the tree
}

func newFakeHost(t *testing.T, own string) fakeHost {
	t.Helper()
	h := fakeHost{root: t.TempDir(), own: own}
	for file, text := range map[string]string{
		"cg" + own + "/cgroup.procs":           fmt.Sprintf("1\n%d\n", os.Getpid()),
		"cg" + own + "/cgroup.type":            "domain\n",
		"cg" + own + "/cgroup.subtree_control": "",
		"proc/cgroup":                          "0::" + own + "\n",
	} {
		h.write(t, file, text)
	}
	h.mount(t, "/", "cg", "rw")
	return h
}

func (h fakeHost) write(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join(h.root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mount makes root the only mount of cgroup v2, at dir of the folder.
func (h fakeHost) mount(t *testing.T, root, dir, options string) {
	t.Helper()
	h.write(t, "proc/mountinfo", "23 28 0:21 / /proc rw,nosuid - proc proc rw\n"+
		fmt.Sprintf("31 23 0:26 %s %s %s,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
			root, strings.ReplaceAll(filepath.Join(h.root, dir), " ", `\040`), options))
}

func (h fakeHost) find() (cgroupSite, error) {
	return cgroupFinder{proc: filepath.Join(h.root, "proc"), systemd: filepath.Join(h.root, "booted")}.find()
}

func TestCgroupFinder_Finds(t *testing.T) {
	for _, c := range []struct {
		name, own string
		change    func(*testing.T, fakeHost)
		dir       string
	}{
		{"in a container", "/a/b", func(*testing.T, fakeHost) {}, "cg/a/b"},
		{
			"through a mount that begins further down", "/a/b",
			func(t *testing.T, h fakeHost) { h.mount(t, "/a", "cg/a", "rw") }, "cg/a/b",
		},
		{
			"through a mount of just this cgroup", "/a/b",
			func(t *testing.T, h fakeHost) { h.mount(t, "/a/b", "cg/a/b", "rw") }, "cg/a/b",
		},
		{"behind a blank in the mount's name", "/a/b", func(t *testing.T, h fakeHost) {
			if err := os.Rename(filepath.Join(h.root, "cg"), filepath.Join(h.root, "c g")); err != nil {
				t.Fatal(err)
			}
			h.mount(t, "/", "c g", "rw")
		}, "c g/a/b"},
		{"beside v1", "/a", func(t *testing.T, h fakeHost) {
			h.write(t, "proc/cgroup", "4:memory:/b\n0::/a\n")
		}, "cg/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHost(t, c.own)
			c.change(t, h)
			site, err := h.find()
			if want := filepath.Join(h.root, c.dir); err != nil || site.dir != want || !site.inside {
				t.Errorf("find() = %+v, %v; want %s, inside of it", site, err, want)
			}
		})
	}
}

// Each reason is one that a person can act on.
func TestCgroupFinder_Reasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*testing.T, fakeHost)
		want   string // ROOT is the folder
	}{
		{"no v2", func(t *testing.T, h fakeHost) { h.write(t, "proc/cgroup", "4:memory:/\n") }, "this kernel has no cgroup v2"},
		{"no mount", func(t *testing.T, h fakeHost) {
			h.write(t, "proc/mountinfo", "23 28 0:21 / /proc rw,nosuid - proc proc rw\n")
		}, "cgroup v2 is not mounted"},
		{
			"read-only, as most containers", func(t *testing.T, h fakeHost) { h.mount(t, "/", "cg", "ro") },
			"cgroup v2 is mounted read-only at ROOT/cg",
		},
		{
			"a mount of something else", func(t *testing.T, h fakeHost) { h.mount(t, "/a/bc", "cg/a/b", "rw") },
			"no mount of cgroup v2 shows this process' cgroup /a/b",
		},
		{
			"a mount of another namespace", func(t *testing.T, h fakeHost) { h.mount(t, "/../..", "cg", "rw") },
			"no mount of cgroup v2 shows this process' cgroup /a/b",
		},
		{"a mount of one whose name begins like it", func(t *testing.T, h fakeHost) {
			h.write(t, "proc/cgroup", "0::/a/bc\n")
			h.write(t, "cg/a/b/c/cgroup.procs", fmt.Sprintln(os.Getpid()))
			h.mount(t, "/a/b", "cg/a/b", "rw")
		}, "no mount of cgroup v2 shows this process' cgroup /a/bc"},
		{"another mount above it", func(t *testing.T, h fakeHost) {
			h.write(t, "cg/a/b/cgroup.procs", "1\n")
		}, "no mount of cgroup v2 shows this process' cgroup /a/b"},
		{"the root of all", func(t *testing.T, h fakeHost) {
			if err := os.Remove(filepath.Join(h.root, "cg/a/b/cgroup.type")); err != nil {
				t.Fatal(err)
			}
		}, "ROOT/cg/a/b is the root of all cgroups, which nobody delegated"},
		{
			"threaded", func(t *testing.T, h fakeHost) { h.write(t, "cg/a/b/cgroup.type", "threaded\n") },
			"ROOT/cg/a/b is a threaded cgroup",
		},
		{"nothing to enable controllers with", func(t *testing.T, h fakeHost) {
			if err := os.Remove(filepath.Join(h.root, "cg/a/b/cgroup.subtree_control")); err != nil {
				t.Fatal(err)
			}
		}, "ROOT/cg/a/b/cgroup.subtree_control may not be written: no such file or directory"},
		{
			"systemd's own", func(t *testing.T, h fakeHost) { h.write(t, "booted/here", "") },
			"systemd did not delegate /a/b: its unit has no Delegate=",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHost(t, "/a/b")
			c.change(t, h)
			site, err := h.find()
			if got := strings.ReplaceAll(said(err), h.root, "ROOT"); got != c.want || site.dir != "" {
				t.Errorf("find() = %+v, %s; want none, %s", site, got, c.want)
			}
		})
	}
}
