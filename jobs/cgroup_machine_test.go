//go:build linux

package jobs

import (
	"path/filepath"
	"testing"
)

// What a machine lacks is known from outside of its daemon; what was delegated to that is not.
func TestLimits_Unsupported(t *testing.T) {
	all := Limits{MemoryBytes: 1 << 20, CPUPercent: 50, Tasks: 64}
	for _, c := range []struct {
		name   string
		change func(*testing.T, fakeHost)
		limits Limits
		want   string
	}{
		{"cgroup v2 with all", func(*testing.T, fakeHost) {}, all, ""},
		{"without a cgroup of one's own", func(t *testing.T, h fakeHost) { h.write(t, "booted/here", "") }, all, ""},
		{
			"a kernel without", func(t *testing.T, h fakeHost) { h.write(t, "proc/cgroup", "4:memory:/\n") },
			Limits{CPUPercent: 1},
			"limits.cpu is not set: this kernel has no cgroup v2",
		},
		{
			"not mounted", func(t *testing.T, h fakeHost) {
				h.write(t, "proc/mountinfo", "23 28 0:21 / /proc rw,nosuid - proc proc rw\n")
			},
			Limits{MemoryBytes: 1},
			"limits.memory is not set: cgroup v2 is not mounted",
		},
		{
			"v1 has two", func(t *testing.T, h fakeHost) { h.write(t, "proc/cgroup", "4:memory:/\n3:cpu,cpuacct:/\n0::/a/b\n") }, all,
			"limits.memory is not set: cgroup v1 has the controller memory on this machine\n" +
				"limits.cpu is not set: cgroup v1 has the controller cpu on this machine",
		},
		{
			"disabled at boot", func(t *testing.T, h fakeHost) { h.write(t, "cg/cgroup.controllers", "cpuset cpu io pids\n") }, all,
			"limits.memory is not set: cgroup v2 has no controller memory here",
		},
		{
			"a mount that shows a part", func(t *testing.T, h fakeHost) {
				h.mount(t, "/a", "cg/a", "rw")
				h.write(t, "cg/a/cgroup.controllers", "\n")
			}, all, "",
		},
		{"no limits", func(t *testing.T, h fakeHost) { h.write(t, "proc/cgroup", "4:memory:/\n") }, Limits{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHost(t, "/a/b")
			h.write(t, "cg/cgroup.controllers", "cpuset cpu io memory pids\n")
			c.change(t, h)
			if got := said(cgroupFinder{proc: filepath.Join(h.root, "proc")}.unsupported(c.limits)); got != c.want {
				t.Errorf("unsupported(%+v) = %s; want %s", c.limits, got, c.want)
			}
		})
	}
}

// A Warden says what its runs lack, and why.
func TestWarden_Lacking(t *testing.T) {
	limits := Limits{MemoryBytes: 1 << 20, Tasks: 64}
	const none = "limits.memory is not set: nobody asked for cgroups\nlimits.tasks is not set: nobody asked for cgroups"
	if got := said(warden.Lacking(limits)); got != none {
		t.Errorf("Lacking(%+v) = %s; want %s", limits, got, none)
	}
	w := confinedWarden(t, t.Output())
	w.cgroups.lacks = map[string]error{"memory": inV1("memory")}
	if got, want := said(w.Lacking(limits)), "limits.memory is not set: cgroup v1 has the controller memory on this machine"; got != want {
		t.Errorf("Lacking(%+v) = %s; want %s", limits, got, want)
	}
	if got, want := w.cgroups.settable(limits), (Limits{Tasks: 64}); got != want {
		t.Errorf("settable(%+v) = %+v, want %+v", limits, got, want)
	}
}
