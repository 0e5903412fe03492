//go:build linux

package warden

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// table is a config under which forty runs start a second, some of which leave processes behind.
func table(dir string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace = \"warden\"\nstate_dir = %q\n[redis]\nurl = \"embedded\"\n[http]\nlisten = \"\"\n", filepath.Join(dir, "state"))
	for i := range 20 {
		fmt.Fprintf(&b, "[jobs.short-%d]\nschedule = \"* * * * * *\"\ncommand = [\"/bin/true\"]\nkill_grace = \"1s\"\n", i)
		fmt.Fprintf(&b, "[jobs.long-%d]\nschedule = \"* * * * * *\"\nshell = \"setsid sleep 300 & sleep 0.3\"\nkill_grace = \"1s\"\n", i)
	}
	return []byte(b.String())
}

// memory runs a daemon for a while and returns its warden's resident memory in MiB: all of it, and the
// part that is no file. attr says which cgroup it is in, nil: this process' own.
func memory(tb testing.TB, busy time.Duration, attr *syscall.SysProcAttr) (all, own float64) {
	tb.Helper()
	dir := tb.TempDir()
	bin := filepath.Join(dir, "rota")
	build := exec.CommandContext(tb.Context(), "go", "build", "-C", "../..", "-trimpath", "-o", bin, "./cmd/rota")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build rota: %v\n%s", err, out)
	}
	path := filepath.Join(dir, "rota.toml")
	if err := os.WriteFile(path, table(dir), 0o600); err != nil {
		tb.Fatal(err)
	}
	daemon := exec.CommandContext(tb.Context(), bin, "run", "-c", path)
	daemon.Env = []string{"PATH=" + os.Getenv("PATH")} // no GOGC, GODEBUG or GOMEMLIMIT of whoever measures
	daemon.SysProcAttr = attr
	if err := daemon.Start(); err != nil {
		tb.Fatal(err)
	}
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	}()
	for deadline := time.Now().Add(busy); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		pid := wardenOf(daemon.Process.Pid)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it is not there yet
		}
		all, own = max(all, field(text, "VmRSS")/1024), max(own, field(text, "RssAnon")/1024)
	}
	return all, own
}

// wardenOf returns the child of a process that is a warden, 0 if there is none.
func wardenOf(daemon int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", daemon))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(text)) {
			if comm, _ := os.ReadFile("/proc/" + child + "/comm"); string(comm) == "rota-warden\n" {
				pid, _ := strconv.Atoi(child)
				return pid
			}
		}
	}
	return 0
}

// field is the number of a line such as "VmRSS:	   21400 kB" (proc_pid_status(5)).
func field(status []byte, name string) float64 {
	for line := range strings.Lines(string(status)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return n
		}
	}
	return 0
}

// A warden under load stays below 15 MiB, also when it makes a cgroup for each run, which takes root.
func TestMemory_StaysSmall(t *testing.T) {
	for name, cgroups := range map[string]bool{"without cgroups": false, "with cgroups": true} {
		t.Run(name, func(t *testing.T) {
			var attr *syscall.SysProcAttr
			if cgroups {
				attr = in(t, delegate(t))
			}
			all, own := memory(t, 8*time.Second, attr)
			t.Logf("%.1f MiB at most, of it %.1f not shared", all, own)
			if all == 0 {
				t.Fatal("no warden was seen: nothing was measured")
			}
			if all >= 15 {
				t.Errorf("resident memory of the warden: %.1f MiB, want under 15", all)
			}
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for name, cgroups := range map[string]bool{"without_cgroups": false, "with_cgroups": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var attr *syscall.SysProcAttr
				if cgroups {
					attr = in(b, delegate(b))
				}
				all, own := memory(b, 60*time.Second, attr)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(all, "MiB-rss")
				b.ReportMetric(own, "MiB-anon")
			}
		})
	}
}
