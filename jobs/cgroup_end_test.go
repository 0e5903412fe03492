//go:build linux

package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wild leaves by every way there is but the cgroup's: sessions, double forks, cleared environments,
// ignored and stopped signals, a child of its own that forks all the time, and a cgroup inside.
const wild = `trap '' TERM HUP
inner=$CG/inner/most; mkdir -p $inner
setsid sh -c 'trap "" TERM; sleep 300' &
(setsid env -i sleep 300 &)
(env -i sh -c 'echo 0 > '$inner'/cgroup.procs; exec setsid sleep 300' &)
(setsid env -i sh -c 'kill -STOP $$' &)
(setsid env -i sh -c 'while :; do (sleep 0.001 & sleep 0.001 & wait) & wait; done' &)
while ! grep -q . $inner/cgroup.procs; do sleep 0.01; done
echo ready
sleep 300`

func startWild(t *testing.T, r *runCgroup) {
	t.Helper()
	startIn(t, r, "CG="+string(r.cgroupDir)+"\n"+wild)
}

// all are the processes in a cgroup and below.
func (d cgroupDir) all(t *testing.T) (all []int) {
	t.Helper()
	err := d.walk(func(d cgroupDir) error {
		pids, err := d.pids()
		all = append(all, pids...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// killOld is what a kernel without cgroup.kill takes.
func killOld(d cgroupDir) error {
	for range 50 {
		if err := d.killEach(); err != nil || !d.populated() {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("some live after 50 kills")
}

// signal sends signals and waits until they are sent.
func (d cgroupDir) signal(sigs ...syscall.Signal) (failed error) {
	s := d.send(boottime(), sigs...)
	defer s.thaw()
	for {
		done, err := s.again(boottime())
		if failed = errors.Join(failed, err); done {
			return failed
		}
		time.Sleep(time.Millisecond)
	}
}

// Everything that a run started ends with its cgroup, with the kernel's cgroup.kill and without.
func TestCgroupDir_KillsWhole(t *testing.T) {
	for name, kill := range map[string]func(cgroupDir) error{
		"cgroup.kill":           cgroupDir.kill,
		"before Linux 5.14":     killOld,
		"while it stands still": func(d cgroupDir) error { return errors.Join(d.write("cgroup.freeze", "1"), d.kill()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := testCgroups(t)
			run, unset, err := c.add("R1", Limits{})
			if err != nil || unset != nil {
				t.Fatalf("add = %v, %v; want neither", unset, err)
			}
			other, _, err := c.add("R2", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			bystander := startIn(t, other, "echo ready; exec sleep 300")
			startWild(t, run)
			if got := run.all(t); len(got) < 6 {
				t.Fatalf("%d processes in the cgroup, want 6 or more", len(got))
			}
			if err := run.remove(); err == nil {
				t.Error("remove() = nil while processes live, want an error")
			}

			if err := kill(run.cgroupDir); err != nil {
				t.Errorf("kill = %v", err)
			}
			if err := run.wait(soon(t)); err != nil {
				t.Errorf("wait = %v; processes that live: %v", err, run.all(t))
			}
			if err := run.remove(); err != nil {
				t.Errorf("remove = %v, want it gone with the cgroups inside", err)
			}
			if err := unix.Kill(bystander.Process.Pid, 0); err != nil || !other.populated() {
				t.Errorf("another run's process after it: %v, want it alive", err)
			}
		})
	}
}

// All runs of a daemon end at once.
func TestCgroups_End(t *testing.T) {
	c := testCgroups(t)
	for _, id := range []string{"R1", "R2"} {
		run, _, err := c.add(id, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		startWild(t, run)
	}
	if err := errors.Join(c.end(soon(t)), c.close()); err != nil {
		t.Errorf("end and close = %v", err)
	}
	if _, err := os.Stat(string(c.dir)); !os.IsNotExist(err) {
		t.Errorf("the daemon's cgroup after close: %v, want it gone", err)
	}
}

// SIGTERM reaches all that live, stopped ones and other sessions too, and what one of them starts
// to clean up does not get it.
func TestCgroupDir_SignalsWhatLives(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := startIn(t, run, `cd `+dir+`; : > up; inner=`+run.file("inner/most")+`; mkdir -p $inner
(setsid env -i sh -c 'trap "echo > session; exit" TERM; echo >> up; while :; do sleep 0.05; done' &)
(env -i setsid sh -c 'trap "echo > stopped; exit" TERM; echo >> up; kill -STOP $$; while :; do sleep 0.05; done' &)
(env -i setsid sh -c 'echo 0 > '$inner'/cgroup.procs; trap "echo > inside; exit" TERM; echo >> up; while :; do sleep 0.05; done' &)
trap 'sh -c "sleep 0.3; echo > cleaned"; exit 7' TERM
until [ "$(wc -l < up)" = 3 ]; do sleep 0.02; done
echo ready
while :; do sleep 0.05; done`)
	if err := run.signal(unix.SIGTERM, unix.SIGCONT); err != nil {
		t.Errorf("signal = %v", err)
	}
	if err := run.wait(soon(t)); err != nil {
		t.Errorf("wait = %v; processes that live: %v", err, run.all(t))
	}
	for _, name := range []string{"session", "stopped", "inside", "cleaned"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("what the trap leaves: %v", err)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7 from the trap", got)
	}
}

// More processes than are held at a time, some of which end meanwhile.
func TestCgroupDir_SignalsMany(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	startIn(t, run, `i=0; while [ $i -lt 200 ]; do sleep 300 & sleep 0.0$((i % 10)) & i=$((i+1)); done; echo ready; wait`)
	if err := run.signal(unix.SIGTERM); err != nil {
		t.Errorf("signal = %v", err)
	}
	if err := run.wait(soon(t)); err != nil {
		t.Errorf("wait = %v; processes that live: %v", err, run.all(t))
	}
}

// A main process that is not reaped does not count: it is as dead.
func TestCgroupDir_WaitsForTheLast(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.wait(soon(t)); err != nil || run.populated() {
		t.Errorf("wait for an empty cgroup = %v, want nil", err)
	}
	cmd := startIn(t, run, "(setsid env -i sleep 0.5 &); echo ready")
	start := time.Now()

	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if err := run.wait(ctx); !errors.Is(err, cause) {
		t.Errorf("wait that is cancelled = %v, want the cause", err)
	}
	if !run.populated() {
		t.Error("populated() = false while a session lives")
	}
	if err := run.wait(soon(t)); err != nil || run.populated() {
		t.Errorf("wait = %v, populated() = %v; want nil, false", err, run.populated())
	}
	if got := time.Since(start); got < 400*time.Millisecond {
		t.Errorf("waited for %v, want as long as the session lives, 0.5s", got)
	}
	if err := run.wait(ctx); err != nil {
		t.Errorf("wait for an empty cgroup with a context that has ended = %v, want nil", err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil || !strings.Contains(string(stat), ") Z ") {
		t.Errorf("the main process: %q, %v; want a zombie", stat, err)
	}
	if err := run.remove(); err != nil {
		t.Errorf("remove with a zombie = %v", err)
	}
	if err := run.wait(soon(t)); err != nil || run.populated() {
		t.Errorf("wait for a cgroup that is gone = %v, want nil", err)
	}
	for what, err := range map[string]error{"kill": run.kill(), "remove": run.remove(), "signal": run.signal(unix.SIGTERM)} {
		if err != nil {
			t.Errorf("%s of a cgroup that is gone = %v, want nil", what, err)
		}
	}
}

// What is waited for need not be empty: it may go away altogether.
func TestCgroupDir_WaitEndsWithTheCgroup(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- run.await(soon(t), "frozen", 1) }()
	time.Sleep(20 * time.Millisecond)
	if err := run.remove(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("await in a cgroup that is removed = %v, want nil", err)
	}
}

// The unit's own pid must never be among those to be signalled, nor 0, which would be our group.
func TestCgroupDir_PidsAreOthers(t *testing.T) {
	d := cgroupDir(t.TempDir())
	if err := os.WriteFile(d.file("cgroup.procs"), []byte("0\n17\n0\n"+strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pids, err := d.pids()
	if err != nil || len(pids) != 2 || pids[0] != 17 {
		t.Errorf("pids() = %v, %v; want 17 and our own, no 0", pids, err)
	}
	if err := os.WriteFile(d.file("cgroup.procs"), []byte("0\n"+strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.signalOwn(map[int]bool{}, []syscall.Signal{unix.SIGKILL}); err != nil {
		t.Errorf("signalOwn = %v, want us to live on", err)
	}
}

// Processes that are others each time that somebody looks get the signal as well.
func TestCgroupDir_SignalsRunaways(t *testing.T) {
	c := testCgroups(t)
	run, _, err := c.add("R1", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	// They stop after some time: each leaves a zombie to whoever gets orphans here.
	startIn(t, run, `hop() { test $1 = 0 && exec sleep 300; (hop $(($1 - 1))) & exit; }
i=0; while [ $i -lt 30 ]; do (read x < `+gate+`; hop 50) & i=$((i+1)); done; sleep 0.1; echo ready`)
	open, err := os.OpenFile(gate, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	open.Close()
	time.Sleep(2 * time.Millisecond)
	if err := run.signal(unix.SIGTERM); err != nil {
		t.Errorf("signal = %v", err)
	}
	if err := run.wait(soon(t)); err != nil {
		t.Fatalf("wait = %v; processes that live: %v", err, run.all(t))
	}
}

// A run that may do so makes threaded cgroups in its own (cgroups(7), "Thread mode"). The processes
// in one are listed where the threads' common domain begins, and only there.
func TestCgroupDir_Threaded(t *testing.T) {
	for name, end := range map[string]func(cgroupDir) error{
		"signal":            func(d cgroupDir) error { return d.signal(unix.SIGTERM) },
		"cgroup.kill":       cgroupDir.kill,
		"before Linux 5.14": killOld,
	} {
		t.Run(name, func(t *testing.T) {
			c := testCgroups(t)
			run, _, err := c.add("R1", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			inner := run.file("inner")
			startIn(t, run, "set -e; mkdir "+inner+"; echo threaded > "+inner+"/cgroup.type\n"+
				"echo $$ > "+inner+"/cgroup.procs; sleep 300 & echo ready; wait")
			if err := errors.Join(end(run.cgroupDir), run.wait(soon(t)), run.remove()); err != nil {
				t.Errorf("end, wait and remove = %v", err)
			}
		})
	}
}
