package fleet

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// delegate makes a cgroup and has the daemons of the fleet start in it: cgroup v2 is mounted for the test.
// It goes with all that is in it.
func (f *fleet) delegate() {
	f.t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		f.t.Skip("needs root, to mount cgroup v2")
	}
	mount := f.t.TempDir()
	if err := unix.Mount("none", mount, "cgroup2", 0, ""); err != nil {
		f.t.Fatalf("mount -t cgroup2: %v", err)
	}
	f.t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	dir := filepath.Join(mount, "rota-fleet-"+rand.Text()[:8])
	f.enter(dir)
	f.t.Cleanup(func() {
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		eventually(f.t, 10*time.Second, func() error { return removeCgroup(dir) })
	})
}

// enter makes a cgroup for the daemons to start in.
func (f *fleet) enter(dir string) {
	f.t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	// Where systemd runs the machine, that is its mark of a delegated cgroup.
	_ = unix.Setxattr(dir, "user.delegate", []byte("1"), 0)
	f.cgroup = dir
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() && err == nil {
			err = removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

// A nap is how long the processes of one test sleep: a number that no other process has in its arguments.
type nap string

func newNap(t *testing.T) nap {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1e12))
	if err != nil {
		t.Fatal(err)
	}
	return nap(fmt.Sprintf("600.%012d", n))
}

// sleepers are the live processes that take the nap. They show nothing else of the run that they are of.
func (n nap) sleepers() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err == nil && string(args) == "sleep\x00"+string(n)+"\x00" {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// escaping is a job that leaves by every way there is: its session, double forks, without its environment,
// without its mark; then it goes on as said. Only the first run does that.
func (f *fleet) escaping(n nap, then, more string) string {
	return fmt.Sprintf(`[jobs.work]
schedule = "*/2 * * * * *"
kill_grace = "200ms"
%s
shell = '''
%s
[ -e %[3]s.ran ] && exit 0
: > %[3]s.ran
trap "" TERM
setsid sh -c "(sleep %[4]s &)"
(env -i setsid sleep %[4]s &)
(env -i setsid prlimit --locks=unlimited:unlimited sh -c "sleep %[4]s & sleep %[4]s & sleep 0.3" &)
sleep 0.5
: > %[3]s.stands
%[5]s'''
`, more, f.markCommand(), filepath.Join(f.dir, "work"), n, then)
}

// escaped waits until the run is all there, and returns it.
func (f *fleet) escaped(n nap) mark {
	f.t.Helper()
	eventually(f.t, 30*time.Second, func() error {
		if _, err := os.Stat(filepath.Join(f.dir, "work.stands")); err != nil || len(n.sleepers()) < 4 {
			return fmt.Errorf("%d processes have escaped, want 4", len(n.sleepers()))
		}
		return nil
	})
	return f.marks()[0]
}

// recorded waits for the outcome of a run.
func (f *fleet) recorded(run string) (entry ledger.Entry) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, func() error {
		for _, e := range f.history("work") {
			if e.Run == run && e.Outcome != ledger.OutcomeRunning {
				entry = e
				return nil
			}
		}
		return fmt.Errorf("run %s is not recorded", run)
	})
	return entry
}

// wantAllDead fails if anything of the run lives.
func (f *fleet) wantAllDead(n nap, run string) {
	f.t.Helper()
	if pids := slices.Concat(n.sleepers(), of(run)); len(pids) > 0 {
		f.t.Errorf("processes of the run that live: %v, want none", pids)
	}
}

// wantNoRuns fails if a cgroup of a run, or of a daemon's runs, is left.
func (f *fleet) wantNoRuns() {
	f.t.Helper()
	if left, err := filepath.Glob(filepath.Join(f.cgroup, "rota-*")); len(left) > 0 || err != nil {
		f.t.Errorf("cgroups that daemons left: %q, %v; want none", left, err)
	}
}

// Whatever a run has become, nothing of it lives when its outcome is recorded: not what shows no sign of
// it any more. It is known what all of it used. And nothing is said to have escaped.
func TestFleet_CgroupEndsWhole(t *testing.T) {
	for _, c := range []struct{ name, then, more, outcome string }{
		{"ended by itself", "exit 0", "", "succeeded"},
		{"timed out", "sleep 600", `timeout = "1500ms"`, "timed_out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			f.delegate()
			n := newNap(t)
			d := f.start("a", s.Addr(), f.escaping(n, c.then, c.more))
			run := f.escaped(n)
			e := f.recorded(run.run)
			f.wantAllDead(n, run.run)
			if e.Outcome != c.outcome || e.CPU <= 0 || e.PeakMemoryBytes <= 0 {
				t.Errorf("the run is recorded as %+v; want %s, with what it used", e, c.outcome)
			}
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
			f.wantNoRuns()
			if n := d.log.count("runs get cgroups"); n != 1 {
				t.Errorf("%d lines say that runs get cgroups, want 1", n)
			}
			for _, msg := range []string{"process escaped its run", "process outlived its run", "run has no cgroup", "cgroup of a run was left", "warden lost"} {
				if n := d.log.count(msg); n != 0 {
					t.Errorf("%d lines %q, want none", n, msg)
				}
			}
		})
	}
}

// awaitEnd waits for the end of a process.
func (f *fleet) awaitEnd(pid int) {
	f.t.Helper()
	eventually(f.t, 10*time.Second, func() error {
		if !gone(pid) {
			return fmt.Errorf("process %d lives", pid)
		}
		return nil
	})
}

// A daemon that is killed takes what escaped along, by its warden; and what a daemon leaves that was
// killed together with its warden is ended by the next one, before that claims anything.
func TestFleet_CgroupDaemonKilled(t *testing.T) {
	for _, c := range []struct {
		name   string
		warden bool
	}{{"alone", false}, {"with its warden", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			f.delegate()
			f.state = filepath.Join(f.dir, "state")
			n := newNap(t)
			table := f.escaping(n, "sleep 600", "")
			d := f.start("a", s.Addr(), table)
			run := f.escaped(n)
			wardens := d.wardens()
			if len(wardens) != 1 {
				t.Fatalf("the daemon has wardens %v, want one", wardens)
			}
			if c.warden { // it must not see its daemon die first
				_ = syscall.Kill(wardens[0], syscall.SIGSTOP)
			}
			d.signal(syscall.SIGKILL)
			if c.warden {
				f.awaitEnd(d.cmd.Process.Pid)
				_ = syscall.Kill(wardens[0], syscall.SIGKILL)
				f.awaitEnd(wardens[0])
				if len(n.sleepers()) == 0 {
					t.Fatal("what escaped is dead although nobody killed it: the test shows nothing")
				}
			} else {
				eventually(t, 2*time.Second, func() error {
					if pids := slices.Concat(n.sleepers(), of(run.run)); len(pids) > 0 {
						return fmt.Errorf("processes of the run that live: %v", pids)
					}
					return nil
				})
			}
			<-d.done // the warden has had its log as well
			next := f.start("b", s.Addr(), table)
			eventually(t, 20*time.Second, func() error {
				if next.log.count("daemon started") == 0 {
					return fmt.Errorf("the next daemon has not started")
				}
				return nil
			})
			f.wantAllDead(n, run.run)
			want := 0
			if c.warden {
				want = 1
			}
			if got := next.log.count("runs of an earlier daemon ended"); got != want {
				t.Errorf("%d lines say that runs of an earlier daemon were ended, want %d", got, want)
			}
			if code := next.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
			f.wantNoRuns()
		})
	}
}

// A warden that is killed, or stopped: its daemon ends what escaped too, and records what it used.
func TestFleet_CgroupWardenLost(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			f.delegate()
			n := newNap(t)
			d := f.start("a", s.Addr(), f.escaping(n, "sleep 600", ""))
			run := f.escaped(n)
			wardens := d.wardens()
			if len(wardens) != 1 {
				t.Fatalf("the daemon has wardens %v, want one", wardens)
			}
			_ = syscall.Kill(wardens[0], signal)
			e := f.recorded(run.run)
			f.wantAllDead(n, run.run)
			if e.Outcome != ledger.OutcomeLost || !strings.Contains(e.Reason, "the warden was lost") || e.CPU <= 0 {
				t.Errorf("the run is recorded as %+v; want it lost with its warden, with what it used", e)
			}
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
			f.wantNoRuns()
		})
	}
}

// Where no controller is delegated, jobs run without their limits, and each limit is told of once a table:
// why, and what to do.
func TestFleet_LimitsThatDoNotHold(t *testing.T) {
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	f.delegate()
	f.enter(filepath.Join(f.cgroup, "inner")) // to which its parent passes no controller on
	const table = `[defaults]
limits = { memory = "64MiB", tasks = 64 }
[jobs.work]
schedule = "* * * * * *"
command = ["true"]
[jobs.more]
schedule = "@daily"
command = ["true"]
limits = { cpu = "50%" }
`
	d := f.start("a", s.Addr(), table)
	eventually(t, 20*time.Second, func() error {
		for _, e := range f.history("work") {
			if e.Outcome == "succeeded" {
				return nil
			}
		}
		return fmt.Errorf("no run of work has succeeded")
	})
	d.signal(syscall.SIGHUP)
	eventually(t, 10*time.Second, func() error {
		if d.log.count("table reloaded") == 0 {
			return fmt.Errorf("not reloaded")
		}
		return nil
	})
	type line struct {
		Msg, Reason, Job, Remedy string
		Jobs                     int
	}
	told := map[string]int{}
	for text := range strings.Lines(d.log.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Msg == "limit does not hold on this host" {
			limit, why, _ := strings.Cut(l.Reason, " is not set: ")
			told[fmt.Sprint(limit, " ", l.Jobs, " ", l.Job)]++
			if !strings.Contains(why, "controller") || !strings.Contains(l.Remedy, "Delegate=") {
				t.Errorf("%s: want a reason that names the controller, and what to do", text)
			}
		}
	}
	for _, want := range []string{"limits.memory 2 more", "limits.tasks 2 more", "limits.cpu 1 more"} {
		if told[want] != 2 {
			t.Errorf("told of %v; want %q at the start and at the reload", told, want)
		}
	}
	if n := d.log.count("limits not set"); n != 0 {
		t.Errorf("%d runs say again what was said of the table", n)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}
