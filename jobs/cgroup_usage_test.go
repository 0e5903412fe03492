//go:build linux

package jobs

import (
	"os"
	"strings"
	"testing"
	"time"
)

// What every process used is added up, also that of those that nobody waited for.
func TestCgroupDir_Usage(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	before, err := run.usage()
	if err != nil || before != (cgroupUsage{peakBytes: before.peakBytes}) {
		t.Errorf("usage of a cgroup with no process = %+v, %v; want none", before, err)
	}
	const work = `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done`
	startIn(t, run, `(env -i setsid sh -c '`+work+`' &); echo ready; exec sh -c '`+work+`; times >&2'`)
	if err := run.wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	u, err := run.usage()
	if err != nil {
		t.Errorf("usage = %v", err)
	}
	if u.cpu < 20*time.Millisecond || u.cpu > 10*time.Second || u.user <= 0 || u.user+u.system > u.cpu+time.Millisecond {
		t.Errorf("usage of two loops = %+v; want some CPU time, most of it the user's", u)
	}
	if err := run.remove(); err != nil {
		t.Errorf("remove = %v", err)
	}
}

func TestCgroupDir_UsageFiles(t *testing.T) {
	const cpu = "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 0\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  cgroupUsage
		err   string
	}{
		{"no controllers", map[string]string{"cpu.stat": cpu}, cgroupUsage{
			cpu: 1500 * time.Millisecond, user: time.Second, system: 500 * time.Millisecond,
		}, ""},
		{"all", map[string]string{
			"cpu.stat": cpu, "memory.peak": "536870912\n", "pids.events": "max 3\n",
			"memory.events":       "low 0\nhigh 0\nmax 9\noom 5\noom_kill 2\noom_group_kill 1\n",
			"memory.events.local": "low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\noom_group_kill 0\n",
		}, cgroupUsage{
			cpu: 1500 * time.Millisecond, user: time.Second, system: 500 * time.Millisecond,
			peakBytes: 512 << 20, oomKills: 2, memoryHits: 1, refusedTasks: 3,
		}, ""},
		{"before Linux 5.19", map[string]string{"memory.events": "oom 0\noom_kill 1\n"}, cgroupUsage{oomKills: 1}, ""},
		{"no cgroup", nil, cgroupUsage{}, ""},
		{"something else", map[string]string{"memory.peak": "much\n"}, cgroupUsage{}, `strconv.ParseInt: parsing "much": invalid syntax`},
		{"without the key", map[string]string{"pids.events": "min 1\n"}, cgroupUsage{}, `no "max" in "min 1\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := cgroupDir(t.TempDir())
			for name, text := range c.files {
				if err := os.WriteFile(d.file(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			u, err := d.usage()
			if u != c.want || said(err) != c.err {
				t.Errorf("usage() = %+v, %v; want %+v, %s", u, err, c.want, c.err)
			}
		})
	}
}

func TestCgroupUsage_Said(t *testing.T) {
	for _, c := range []struct {
		usage  cgroupUsage
		limits Limits
		want   string
	}{
		{cgroupUsage{cpu: time.Hour, peakBytes: 1 << 40}, Limits{1, 1, 1}, ""},
		{cgroupUsage{oomKills: 1, memoryHits: 1}, Limits{MemoryBytes: 512 << 20}, "killed by the memory limit of 512MiB"},
		{cgroupUsage{oomKills: 1, memoryHits: 1}, Limits{MemoryBytes: 1536 << 10}, "killed by the memory limit of 1.5MiB"},
		{cgroupUsage{oomKills: 1}, Limits{MemoryBytes: 512 << 20}, "killed by the kernel, which was out of memory"},
		{cgroupUsage{oomKills: 2, memoryHits: 2}, Limits{}, "killed by the kernel, which was out of memory"},
		{cgroupUsage{memoryHits: 1}, Limits{MemoryBytes: 512 << 20}, ""}, // it got some after all
		{cgroupUsage{refusedTasks: 1}, Limits{Tasks: 64}, "the limit of 64 tasks was reached"},
		{cgroupUsage{refusedTasks: 1}, Limits{}, ""},
		{cgroupUsage{refusedTasks: 1, oomKills: 1}, Limits{Tasks: 64}, "killed by the kernel, which was out of memory"},
	} {
		if got := c.usage.said(c.limits); got != c.want {
			t.Errorf("%+v said(%+v) = %q, want %q", c.usage, c.limits, got, c.want)
		}
	}
}

// Files of the kernel grow keys; one must not pass for another that begins like it.
func TestKeyed_WholeKeys(t *testing.T) {
	const text = "oom_kill 7\noom_group_kill 2\noom 3\n"
	for key, want := range map[string]int64{"oom": 3, "oom_kill": 7, "oom_group_kill": 2} {
		if got, err := keyed([]byte(text), key); got != want || err != nil {
			t.Errorf("keyed(%q) = %d, %v; want %d", key, got, err, want)
		}
	}
	if _, err := keyed([]byte(text), "kill"); err == nil || !strings.Contains(err.Error(), `no "kill"`) {
		t.Errorf("keyed of what is not there = %v, want an error", err)
	}
}
