//go:build linux

package jobs

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// confinedWarden starts a warden of the test's own that gives runs cgroups, in a real mount of cgroup v2.
func confinedWarden(t *testing.T, log io.Writer) *Warden {
	t.Helper()
	c := testCgroups(t)
	w, err := newWarden(slog.New(slog.NewTextHandler(log, nil)), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if _, err := os.Stat(string(c.dir)); !os.IsNotExist(err) {
			t.Errorf("the cgroup of the runs after Close: %v, want it gone", err)
		}
	})
	return w
}

// noSign is a program that shows no sign of its run but its cgroup: it has left its parents, its session
// and its group, and lost its environment and its mark. It writes its pid into a file and stays.
func noSign(pids string) string {
	return "(env -i setsid prlimit --locks=unlimited:unlimited sh -c 'trap \"\" TERM; echo $$ >>" + pids + "; sleep 300' & " +
		"until [ -s " + pids + " ]; do sleep 0.01; done)"
}

// What shows no sign at all of the run that it came from ends with it, and nobody takes it for a stray.
// Without a cgroup it lives on: TestWarden_TellsOfStrays.
func TestConfined_NoSignIsNeeded(t *testing.T) {
	var log journal
	w := confinedWarden(t, &log)
	for name, more := range map[string]string{"it ends by itself": "sleep 0.2; exit 3", "it is ended": "sleep 300"} {
		t.Run(name, func(t *testing.T) {
			run, _ := testRun(t)
			pids := filepath.Join(t.TempDir(), "pids")
			told := ready(&run)
			cmd := command(Shell(noSign(pids) + "; echo ready; " + more)...)
			cmd.Warden, cmd.KillGrace = w, 200*time.Millisecond
			got := cmd.Run(endsWith(t, ErrCancelled, after(t, told, time.Second)), run)
			if name == "it ends by itself" {
				check(t, name, got, Failed, 3, "exit code 3")
			} else {
				check(t, name, got, Cancelled, 143, words(ErrCancelled)+killedToo)
			}
			for _, pid := range pidsIn(t, pids) {
				if !ended(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
		})
	}
	if log.String() != "" {
		t.Errorf("the log has\n%s\nwant nothing", &log)
	}
}

// Whoever may leaves the cgroup, as su(1) does where systemd gives it a session. It is told from a
// stranger by the family that it comes from.
func TestConfined_MovedOut(t *testing.T) {
	w := confinedWarden(t, os.Stderr)
	elsewhere := testCgroup(t)
	for name, script := range map[string]string{
		"the main process":    "echo 0 > $OUT/cgroup.procs; trap 'echo main >> $TOLD; exit 7' TERM; : > $TOLD.up",
		"a child":             "sh -c 'echo 0 > $OUT/cgroup.procs; trap \"echo child >> $TOLD; exit\" TERM; : > $TOLD.up; $STAY' & trap 'wait; exit 7' TERM",
		"an orphan":           "(setsid sh -c 'echo 0 > $OUT/cgroup.procs; trap \"echo orphan >> $TOLD; exit\" TERM; : > $TOLD.up; $STAY' &) ; trap 'exit 7' TERM",
		"a child, then alone": "(sh -c 'echo 0 > $OUT/cgroup.procs; trap \"echo alone >> $TOLD; exit\" TERM; : > $TOLD.up; $STAY' & sleep 0.1) ; trap 'exit 7' TERM",
	} {
		t.Run(name, func(t *testing.T) {
			run, _ := testRun(t)
			told := filepath.Join(t.TempDir(), "told")
			began := ready(&run)
			stay := "while :; do sleep 0.02; done"
			text := strings.NewReplacer("$OUT", string(elsewhere), "$TOLD", told, "$STAY", stay).Replace(script + "; until [ -e $TOLD.up ]; do sleep 0.02; done; echo ready; $STAY")
			cmd := command(Shell(text)...)
			cmd.Warden = w
			check(t, name, cmd.Run(endsWith(t, ErrCancelled, began), run), Cancelled, 7, words(ErrCancelled))
			if text, err := os.ReadFile(told); strings.Count(string(text), "\n") != 1 {
				t.Errorf("who was told to end: %q, %v; want one, once", text, err)
			}
			if pids := elsewhere.all(t); len(pids) > 0 {
				t.Errorf("processes that were moved out and live: %v, want none", pids)
			}
			wantNone(t, run.ID)
		})
	}
}

// SIGTERM reaches each process of a run once, whatever it is to the main process, also one that is an
// orphan only since its parent died of it; and nothing that one of them starts to clean up.
func TestConfined_SignalsOnce(t *testing.T) {
	w := confinedWarden(t, os.Stderr)
	run, _ := testRun(t)
	dir := t.TempDir()
	began := ready(&run)
	trap := func(who string) string {
		return "trap 'echo >> " + dir + "/" + who + "' TERM; echo >> " + dir + "/up; until [ -e " + dir + "/over ]; do sleep 0.02; done"
	}
	cmd := command(Shell(": > " + dir + "/up\nsh -c \"" + trap("child") + "\" &\n(setsid sh -c \"" + trap("orphan") + "\" &)\n" +
		"(env -i sh -c \"" + trap("lost") + "\" &)\n" +
		"setsid sh -c 'setsid sh -c \"" + strings.ReplaceAll(trap("heir"), "'", `'\''`) + "\" & wait' &\n" +
		"trap 'echo >> " + dir + "/main; (sh -c \"sleep 0.3; echo > " + dir + "/cleaned\" &); " +
		"i=0; until [ -e " + dir + "/cleaned ] || [ $i = 100 ]; do sleep 0.02; i=$((i+1)); done; : > " + dir + "/over; wait; exit 7' TERM\n" +
		"until [ \"$(wc -l < " + dir + "/up)\" = 4 ]; do sleep 0.02; done; echo ready; while :; do sleep 0.02; done")...)
	cmd.Warden = w
	check(t, "a run that cleans up", cmd.Run(endsWith(t, ErrTimedOut, began), run), TimedOut, 7, words(ErrTimedOut))
	for _, who := range []string{"main", "child", "orphan", "lost", "heir", "cleaned"} {
		if text, err := os.ReadFile(filepath.Join(dir, who)); string(text) != "\n" {
			t.Errorf("SIGTERM for %s: %d times, %v; want once", who, len(text), err)
		}
	}
}

// ignoreAChild has a child that nobody waits for: SIGCHLD is ignored, so the kernel reaps it, and tells
// nobody what it used (NOTES of wait(2), getrusage(2)).
func ignoreAChild() {
	signal.Ignore(unix.SIGCHLD)
	pid, err := syscall.ForkExec("/bin/sh", Shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"), nil)
	if err != nil {
		fmt.Println(err)
	}
	for !ended(pid) {
		time.Sleep(time.Millisecond)
	}
}

// What every process used is counted, also that of those that nobody waited for.
func TestConfined_Usage(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	use := func(w *Warden) Result {
		run, _ := testRun(t)
		cmd := command(self)
		cmd.Env, cmd.Warden = append(cmd.Env, roleVariable+"=ignore"), w
		got := cmd.Run(t.Context(), run)
		check(t, "a child that nobody waits for", got, Succeeded, 0, "")
		return got
	}
	confined, other := use(confinedWarden(t, os.Stderr)), use(warden)
	if confined.CPU < other.CPU+50*time.Millisecond || confined.PeakMemoryBytes < 1<<20 {
		t.Errorf("CPU = %v, without a cgroup %v; PeakMemoryBytes = %d; want that of the child besides, and some memory",
			confined.CPU, other.CPU, confined.PeakMemoryBytes)
	}
}

// A run that cannot have a cgroup goes on without, and its limits are said not to hold. So does one whose
// limits cannot be set.
func TestConfined_Flaws(t *testing.T) {
	var log journal
	w := confinedWarden(t, &log)
	run, out := testRun(t)
	run.ID = "no/name"
	cmd := command(Shell("setsid sleep 300 & echo hello; exit 3")...)
	cmd.Warden = w
	check(t, "a run without", cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
	if out.String() != "hello\n" {
		t.Errorf("printed %q, want hello", out)
	}
	wantNone(t, run.ID)
	eventually(t, "that is in the log", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="run has no cgroup" run=no/name err="cgroup of run \"no/name\": no cgroup can have that name"`)
	})

	// The warden is told to set what the daemon thinks can be set.
	delete(w.cgroups.lacks, "pids")
	_ = w.cgroups.dir.write("cgroup.subtree_control", "-pids") // where there is one
	run, _ = testRun(t)
	cmd.Limits = Limits{Tasks: 64}
	check(t, "a run with limits", cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
	want := fmt.Sprintf(`level=WARN msg="limits not set" run=%s err="limits.tasks is not set: the cgroup has no controller pids"`, run.ID)
	eventually(t, "that is in the log", func() bool { return strings.Contains(log.String(), want) })
}

// What a lost warden leaves is dead when Run returns, whole, and what it used is known.
func TestConfined_WardenLost(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"killed": unix.SIGKILL, "stopped": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			w := confinedWarden(t, io.Discard)
			run, _ := testRun(t)
			told := ready(&run)
			pids := filepath.Join(t.TempDir(), "pids")
			cmd := command(Shell("trap '' TERM; " + noSign(pids) + "; setsid sleep 300 & i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo ready; sleep 300")...)
			cmd.Warden = w
			go func() {
				<-told
				_ = unix.Kill(w.PID(), sig)
			}()
			got := cmd.Run(t.Context(), run)
			if got.Outcome != Lost || got.CPU < 10*time.Millisecond {
				t.Errorf("%+v, want it lost, with the CPU time that it used", got)
			}
			for _, pid := range pidsIn(t, pids) {
				if !ended(pid) {
					t.Errorf("process %d lives", pid)
				}
			}
			wantNone(t, run.ID)
			if left, err := w.cgroups.dir.children(); len(left) > 0 || err != nil {
				t.Errorf("cgroups of runs after their warden was lost: %v, %v; want none", left, err)
			}
			next, _ := testRun(t)
			cmd = command("true")
			cmd.Warden = w
			check(t, "the next run", cmd.Run(t.Context(), next), Succeeded, 0, "")
		})
	}
}

// A run that is ended by its limits says so, and its warden is none the worse; see
// TestLimits_OnRealControllers for what is tested where there are none.
func TestLimits_OnRealControllersInAWarden(t *testing.T) {
	site := testCgroup(t)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	_, v1, err := parseOwnCgroup(string(own))
	if err != nil {
		t.Fatal(err)
	}
	cgroupDir(site.file("..")).enableAll(t)
	c, err := cgroupSite{dir: string(site), v1: v1}.open()
	if err != nil {
		t.Fatal(err)
	}
	var log journal
	w, err := newWarden(slog.New(slog.NewTextHandler(&log, nil)), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	pid := w.PID()
	for _, r := range []struct {
		name, controller string
		limits           Limits
		args             []string
		code             int
		reason           string
	}{
		{
			"too much memory", "memory",
			Limits{MemoryBytes: 16 << 20},
			Shell("setsid sleep 300 & head -c 64M /dev/zero | tail -c 64M >/dev/null; exit 0"),
			137, "signal killed (SIGKILL); killed by the memory limit of 16MiB",
		},
		{"enough of it", "memory", Limits{MemoryBytes: 64 << 20}, Shell("exit 3"), 3, "exit code 3"},
		{
			"too many tasks", "pids",
			Limits{Tasks: 4},
			Shell("for i in 1 2 3 4 5; do sleep 0.5 & done; wait"), 2, "exit code 2; the limit of 4 tasks was reached",
		},
		{"as many as there may be", "pids", Limits{Tasks: 4}, Shell("for i in 1 2 3; do sleep 0.1 & done; wait; exit 3"), 3, "exit code 3"},
	} {
		if why := c.lacks[r.controller]; why != nil {
			t.Logf("NOT TESTED on a real controller: %s: %v", r.name, why)
			continue
		}
		run, _ := testRun(t)
		cmd := command(r.args...)
		cmd.Warden, cmd.Limits = w, r.limits
		got := cmd.Run(t.Context(), run)
		check(t, r.name, got, Failed, r.code, r.reason)
		if r.limits.MemoryBytes > 0 && got.PeakMemoryBytes > int64(r.limits.MemoryBytes)+1<<20 {
			t.Errorf("%s: PeakMemoryBytes = %d, want that of the cgroup", r.name, got.PeakMemoryBytes)
		}
		wantNone(t, run.ID)
	}
	if c.lacks["memory"] == nil {
		// What a start needs itself is the run's, too, while its process still shares the warden's memory.
		run, _ := testRun(t)
		cmd := command(append(Shell("exit 3"), strings.Split(strings.Repeat(strings.Repeat("x", 100<<10)+" ", 15), " ")...)...)
		cmd.Warden, cmd.Limits = w, Limits{MemoryBytes: 1 << 20}
		if got := cmd.Run(t.Context(), run); got.Outcome != Failed {
			t.Errorf("1.5 MB of arguments in 1 MiB: %+v, want it failed", got)
		} else {
			t.Logf("1.5 MB of arguments in 1 MiB: %s", got.Reason)
		}
	}
	if w.PID() != pid || log.String() != "" {
		t.Errorf("the warden is %d, was %d; the log has\n%s\nwant the same one, and nothing", w.PID(), pid, &log)
	}
}
