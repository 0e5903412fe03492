//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeCgroup is a folder with the files that the kernel makes for controllers. What is not there
// cannot be made by writing to it, as in a cgroup.
func fakeCgroup(t *testing.T, files ...string) cgroupDir {
	t.Helper()
	d := cgroupDir(t.TempDir())
	for _, name := range files {
		if err := os.WriteFile(d.file(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func filesOf(t *testing.T, d cgroupDir) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(string(d))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := d.read(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestLimits_AreWritten(t *testing.T) {
	all := []string{"memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max"}
	for _, c := range []struct {
		name   string
		limits Limits
		files  []string
		want   map[string]string // those that are not empty
		unset  string
	}{
		{"none", Limits{}, all, nil, ""},
		{"none below zero", Limits{-1, -1, -1}, all, nil, ""},
		{"memory", Limits{MemoryBytes: 512 << 20}, all, map[string]string{
			"memory.max": "536870912", "memory.swap.max": "0", "memory.oom.group": "1",
		}, ""},
		{"half a CPU", Limits{CPUPercent: 50}, all, map[string]string{"cpu.max": "50000 100000"}, ""},
		{"the least of a CPU", Limits{CPUPercent: 1}, all, map[string]string{"cpu.max": "1000 100000"}, ""},
		{"two and a half CPUs", Limits{CPUPercent: 250}, all, map[string]string{"cpu.max": "250000 100000"}, ""},
		{"tasks", Limits{Tasks: 64}, all, map[string]string{"pids.max": "64"}, ""},
		{"all", Limits{1 << 20, 100, 1}, all, map[string]string{
			"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "100000 100000", "pids.max": "1",
		}, ""},
		{
			"a kernel without swap",
			Limits{MemoryBytes: 1 << 20},
			[]string{"memory.max"},
			map[string]string{"memory.max": "1048576"},
			"",
		},
		{
			"one controller is missing",
			Limits{1 << 20, 50, 64},
			[]string{"memory.max", "cpu.max"},
			map[string]string{"memory.max": "1048576", "cpu.max": "50000 100000"},
			"limits.tasks is not set: the cgroup has no controller pids",
		},
		{
			"none is there, and one says why",
			Limits{1 << 20, 50, 64},
			nil, nil,
			"limits.memory is not set: it rains\nlimits.cpu is not set: the cgroup has no controller cpu\n" +
				"limits.tasks is not set: the cgroup has no controller pids",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fakeCgroup(t, c.files...)
			unset := d.limit(c.limits, map[string]error{"memory": errors.New("it rains")})
			got := filesOf(t, d)
			maps.DeleteFunc(got, func(_, text string) bool { return text == "" })
			if !maps.Equal(got, c.want) || said(unset) != c.unset {
				t.Errorf("limit(%+v) wrote %q, %v; want %q, %s", c.limits, got, unset, c.want, c.unset)
			}
		})
	}

	t.Run("the kernel refuses", func(t *testing.T) {
		d := fakeCgroup(t, "pids.max")
		if err := os.Mkdir(d.file("cpu.max"), 0o700); err != nil { // refuses to be written
			t.Fatal(err)
		}
		unset := d.limit(Limits{CPUPercent: 50, Tasks: 64}, nil)
		want := "limits.cpu is not set: open " + d.file("cpu.max") + ": is a directory"
		if got := filesOfOne(t, d, "pids.max"); got != "64" || said(unset) != want {
			t.Errorf("limit wrote %q, %v; want 64, %s", got, unset, want)
		}
	})
}

func filesOfOne(t *testing.T, d cgroupDir, name string) string {
	t.Helper()
	text, err := d.read(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What no run can have is known before there is one.
func TestCgroups_Lacking(t *testing.T) {
	c := &cgroups{lacks: map[string]error{"memory": errors.New("it rains"), "pids": errors.New("it snows")}}
	for limits, want := range map[Limits]string{
		{}:                 "",
		{CPUPercent: 50}:   "",
		{MemoryBytes: 512}: "limits.memory is not set: it rains",
		{512, 50, 64}:      "limits.memory is not set: it rains\nlimits.tasks is not set: it snows",
	} {
		if got := said(c.lacking(limits)); got != want {
			t.Errorf("lacking(%+v) = %q, want %q", limits, got, want)
		}
	}
}

// A controller is enabled for children only while no process is in the cgroup itself; the words of
// the kernel's refusals. Which controller it is does not matter, so it is one that this machine has.
func TestCgroupDir_Enable(t *testing.T) {
	d := testCgroup(t)
	if err := d.enable("memory2"); said(err) != "the controller memory2 is not delegated" {
		t.Errorf("enable of what is not there = %v", err)
	}
	parent, controller := d.parentController(t)
	if controller == "" {
		t.Logf("%s has no controller to enable", parent)
		return
	}
	inner := cgroupDir(d.file("inner"))
	if err := os.Mkdir(string(inner), 0o755); err != nil {
		t.Fatal(err)
	}
	run := &runCgroup{d, openDir(t, d)}
	cmd := startIn(t, run, "echo ready; exec sleep 300")
	want := fmt.Sprintf("the controller %s cannot be enabled: there are other processes in %s itself", controller, d)
	if err := d.enable(controller); said(err) != want {
		t.Errorf("enable with a process inside = %v, want %s", err, want)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := d.enable(controller); err != nil {
		t.Errorf("enable without = %v", err)
	}
	if has := filesOfOne(t, inner, "cgroup.controllers"); !slices.Contains(strings.Fields(has), controller) {
		t.Errorf("controllers of the cgroup inside: %q, want %s among them", has, controller)
	}
}

// parentController enables a controller for d where d is made, and takes that back after the test.
func (d cgroupDir) parentController(t *testing.T) (parent cgroupDir, controller string) {
	t.Helper()
	parent = cgroupDir(d.file(".."))
	before := strings.Fields(filesOfOne(t, parent, "cgroup.subtree_control"))
	for name := range strings.FieldsSeq(filesOfOne(t, parent, "cgroup.controllers")) {
		// These bind what runs to CPUs, or give all of it to real-time processes.
		if strings.HasPrefix(name, "cpu") {
			continue
		}
		if slices.Contains(before, name) {
			return parent, name
		}
		if parent.enable(name) == nil {
			t.Cleanup(func() { _ = parent.write("cgroup.subtree_control", "-"+name) })
			return parent, name
		}
	}
	return parent, ""
}

func openDir(t *testing.T, d cgroupDir) int {
	t.Helper()
	fd, err := unix.Open(string(d), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// enableAll enables the controllers of limits that a cgroup has, until the test ends, and returns them
// in order.
func (d cgroupDir) enableAll(t *testing.T) (enabled []string) {
	t.Helper()
	before := strings.Fields(filesOfOne(t, d, "cgroup.subtree_control"))
	for _, name := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(before, name) {
			if d.enable(name) != nil {
				continue
			}
			t.Cleanup(func() { _ = d.write("cgroup.subtree_control", "-"+name) })
		}
		enabled = append(enabled, name)
	}
	return enabled
}

// The limits do what they say, on each controller that cgroup v2 has on this machine. Where v1 has
// them the tests above, against a folder, have to do; the log then says which are not tested.
func TestLimits_OnRealControllers(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, v1, err := parseOwnCgroup(string(own))
	if err != nil {
		t.Fatal(err)
	}
	site := testCgroup(t)
	cgroupDir(site.file("..")).enableAll(t)
	c, err := cgroupSite{dir: string(site), v1: v1}.open()
	if err != nil {
		t.Fatal(err)
	}
	attempt := func(t *testing.T, id string, l Limits, script string) (*exec.Cmd, cgroupUsage) {
		t.Helper()
		run, unset, err := c.add(id, l)
		if err != nil || unset != nil {
			t.Fatalf("add = %v, %v; want neither", unset, err)
		}
		cmd := startIn(t, run, "echo ready; "+script)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := run.wait(ctx); err != nil {
			t.Fatalf("wait = %v", err)
		}
		_ = cmd.Wait()
		u, err := run.usage()
		if err != nil {
			t.Errorf("usage = %v", err)
		}
		if err := run.remove(); err != nil {
			t.Errorf("remove = %v", err)
		}
		return cmd, u
	}
	for _, real := range []struct {
		controller string
		test       func(*testing.T)
	}{
		{"memory", func(t *testing.T) {
			l := Limits{MemoryBytes: 16 << 20}
			// Two processes: the one that is over the limit, and one that would survive it.
			cmd, u := attempt(t, "M1", l, `setsid sleep 300 & head -c 64M /dev/zero | tail -c 64M >/dev/null; exit 0`)
			if got := cmd.ProcessState.String(); got != "signal: killed" {
				t.Errorf("the main process ended with %s, want it killed with the whole run", got)
			}
			if want := "killed by the memory limit of 16MiB"; u.said(l) != want || u.peakBytes < 8<<20 || u.peakBytes > 17<<20 {
				t.Errorf("usage %+v, said %q; want a peak up to 16MiB, %q", u, u.said(l), want)
			}
			cmd, u = attempt(t, "M2", l, `head -c 4M /dev/zero | tail -c 4M >/dev/null; exit 3`)
			if u.said(l) != "" || cmd.ProcessState.ExitCode() != 3 || u.peakBytes < 4<<20 {
				t.Errorf("a run below its limit: %v, usage %+v; want exit code 3, a peak above 4MiB", cmd.ProcessState, u)
			}
		}},
		{"cpu", func(t *testing.T) {
			start := time.Now()
			// What it uses is its own doing; how long that takes is the limit's.
			_, u := attempt(t, "C1", Limits{CPUPercent: 20},
				`i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
			took := time.Since(start)
			if share := u.cpu.Seconds() / took.Seconds(); share > 0.3 {
				t.Errorf("used %v of CPU in %v, a share of %.2f; want 0.2 about", u.cpu, took, share)
			}
		}},
		{"pids", func(t *testing.T) {
			l := Limits{Tasks: 4}
			cmd, u := attempt(t, "P1", l, `for i in 1 2 3 4 5; do sleep 0.5 & done; wait`)
			if want := "the limit of 4 tasks was reached"; u.said(l) != want || cmd.ProcessState.Success() {
				t.Errorf("five children: %v, said %q; want it to fail, %q", cmd.ProcessState, u.said(l), want)
			}
			cmd, u = attempt(t, "P2", l, `for i in 1 2 3; do sleep 0.1 & done; wait`)
			if u.said(l) != "" || !cmd.ProcessState.Success() {
				t.Errorf("three children: %v, said %q; want it to succeed", cmd.ProcessState, u.said(l))
			}
		}},
	} {
		if why := c.lacks[real.controller]; why != nil {
			t.Logf("NOT TESTED on a real controller, here it is only written to a folder: %s: %v", real.controller, why)
			continue
		}
		t.Run(real.controller, real.test)
	}
}
