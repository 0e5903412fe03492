package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// What these tests ask of jobs that must be dead in time: a main process, its child, and one in a
// session of its own, each of which says every 20 ms that it lives, and none of which takes SIGTERM.
// Only the first run does that; later ones are over at once.
func (f *fleet) clinging(pulse string) string {
	beat := func(who string) string {
		return fmt.Sprintf(`while :; do date +%%s%%N >> %s.%s; sleep 0.02; done`, pulse, who)
	}
	return fmt.Sprintf(`[jobs.work]
schedule = "*/2 * * * * *"
shell = '''%s
[ -e %s.main ] && exit 0
trap "" TERM
setsid sh -c 'trap "" TERM; %s' &
(%s) &
setsid sleep 600 &
%s'''
`, f.markCommand(), pulse, beat("session"), beat("child"), beat("main"))
}

// stands waits until the run is all there, and returns its id and host.
func (f *fleet) stands(pulse string) mark {
	f.t.Helper()
	eventually(f.t, 30*time.Second, func() error {
		for _, who := range []string{"main", "child", "session"} {
			if text, _ := os.ReadFile(pulse + "." + who); !strings.Contains(string(text), "\n") {
				return fmt.Errorf("%s has not said that it lives", who)
			}
		}
		return nil
	})
	return f.marks()[0]
}

// lastBeat is when any process of the run was last seen alive.
func lastBeat(t *testing.T, pulse string) (last time.Time) {
	t.Helper()
	for _, who := range []string{"main", "child", "session"} {
		if beat := lastPulse(t, pulse+"."+who); beat.After(last) {
			last = beat
		}
	}
	return last
}

// of are the live processes of a run, by their environment.
func of(run string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains("\x00"+string(env)+"\x00", "\x00ROTA_RUN="+run+"\x00") {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// wardens are the processes that a daemon started.
func (d *daemon) wardens() (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(field)
			if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "rota-warden\n" {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// hostOf returns the daemon that runs it, and another one.
func hostOf(m mark, daemons ...*daemon) (it, other *daemon) {
	for _, d := range daemons {
		if d.name == m.host {
			it = d
		} else {
			other = d
		}
	}
	return it, other
}

// nextRun waits for a run after the first, and checks that nothing of the first lived by then.
func (f *fleet) nextRun(pulse string, first mark, after time.Time) mark {
	f.t.Helper()
	var next mark
	eventually(f.t, 30*time.Second, func() error {
		for _, m := range f.marks() {
			if m.run != first.run && m.tick.After(after) {
				next = m
				return nil
			}
		}
		return fmt.Errorf("no tick after %s ran", after)
	})
	if next.token <= first.token {
		f.t.Errorf("the next run has token %d, want above %d", next.token, first.token)
	}
	if pids := of(first.run); len(pids) > 0 {
		f.t.Errorf("processes of the first run that live while the next one has run: %v", pids)
	}
	eventually(f.t, 10*time.Second, func() error {
		for _, e := range f.history("work") {
			if e.Run == next.run && !e.Started.IsZero() {
				if last := lastBeat(f.t, pulse); last.After(e.Started) {
					f.t.Errorf("the first run lived until %s, the next one began at %s", last, e.Started)
				}
				return nil
			}
		}
		return fmt.Errorf("the next run is not recorded yet")
	})
	return next
}

// A daemon that is stopped under its run: the warden ends the run before the lease can pass on, the
// other host runs the next tick, and the stopped one goes on where it was when it wakes.
func TestFleet_DaemonStopped(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	pulse := filepath.Join(f.dir, "pulse")
	table := f.clinging(pulse)
	a, b := f.start("a", s.Addr(), table), f.start("b", s.Addr(), table)
	f.awaitHosts(2)
	first := f.stands(pulse)
	it, other := hostOf(first, a, b)
	time.Sleep(ttl) // renewals have moved the deadlines by now
	it.signal(syscall.SIGSTOP)
	stopped := time.Now()
	next := f.nextRun(pulse, first, stopped)
	if next.host != other.name {
		t.Errorf("%s ran the next tick, want %s: the other is stopped", next.host, other.name)
	}
	// The last renewal was sent before the stop, so the lease ended a ttl after it at most.
	if lived := lastBeat(t, pulse).Sub(stopped); lived >= ttl {
		t.Errorf("the run lived %s after the stop, want less than the lease of %s", lived, ttl)
	}
	it.signal(syscall.SIGCONT)
	eventually(t, 10*time.Second, func() error {
		for _, e := range f.history("work") {
			if e.Run == first.run && e.Outcome == ledger.OutcomeLost {
				return nil
			}
		}
		return fmt.Errorf("the run is not recorded as lost")
	})
	if n := it.log.count("warden lost"); n != 0 {
		t.Errorf("%d lines say that the warden was lost: a daemon that slept has waited for nobody", n)
	}
	for _, d := range []*daemon{a, b} {
		if code := d.stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", d.name, code)
		}
	}
	noOrphans(t, f)
}

// A daemon that is killed: its runs die with it, whole, and so does its warden.
func TestFleet_DaemonKilledUnderARun(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	pulse := filepath.Join(f.dir, "pulse")
	table := f.clinging(pulse)
	a, b := f.start("a", s.Addr(), table), f.start("b", s.Addr(), table)
	f.awaitHosts(2)
	first := f.stands(pulse)
	it, other := hostOf(first, a, b)
	wardens := it.wardens()
	if len(wardens) != 1 {
		t.Fatalf("%s has wardens %v, want one", it.name, wardens)
	}
	it.signal(syscall.SIGKILL)
	<-it.done
	killed := time.Now()
	eventually(t, 10*time.Second, func() error {
		if pids := of(first.run); len(pids) > 0 {
			return fmt.Errorf("processes of the run live: %v", pids)
		}
		if !gone(wardens[0]) {
			return fmt.Errorf("the warden lives")
		}
		return nil
	})
	if took := time.Since(killed); took > ttl/2 {
		t.Errorf("the run was dead %s after its daemon, want at once", took)
	}
	if next := f.nextRun(pulse, first, killed); next.host != other.name {
		t.Errorf("%s ran the next tick, want %s", next.host, other.name)
	}
	if code := other.stop(); code != 0 {
		t.Errorf("%s drained with exit %d, want 0", other.name, code)
	}
	noOrphans(t, f)
}

// A warden that is killed, or stopped: its daemon ends the runs, as lost, says so, and has another one
// at once, so that the next tick runs on the same host.
func TestFleet_WardenLost(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
	}{
		{"killed", syscall.SIGKILL, 1500 * time.Millisecond},
		{"stopped", syscall.SIGSTOP, ttl},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			pulse := filepath.Join(f.dir, "pulse")
			d := f.start("a", s.Addr(), f.clinging(pulse))
			first := f.stands(pulse)
			wardens := d.wardens()
			if len(wardens) != 1 {
				t.Fatalf("the daemon has wardens %v, want one", wardens)
			}
			if err := syscall.Kill(wardens[0], c.signal); err != nil {
				t.Fatal(err)
			}
			lost := time.Now()
			f.nextRun(pulse, first, lost)
			if lived := lastBeat(t, pulse).Sub(lost); lived > c.within {
				t.Errorf("the run lived %s after its warden was %s, want under %s", lived, c.name, c.within)
			}
			for _, e := range f.history("work") {
				if e.Run == first.run && (e.Outcome != ledger.OutcomeLost || !strings.Contains(e.Reason, "the warden was lost")) {
					t.Errorf("the run is recorded as %s (%s), want lost with its warden", e.Outcome, e.Reason)
				}
				if e.Run != first.run && e.Outcome != "succeeded" && e.Outcome != ledger.OutcomeSkipped {
					t.Errorf("tick %s: %s (%s), want succeeded, or skipped for the first run", e.Tick, e.Outcome, e.Reason)
				}
			}
			if n := d.log.count("warden lost"); n != 1 {
				t.Errorf("%d lines say that the warden was lost, want 1", n)
			}
			if now := d.wardens(); len(now) != 1 || now[0] == wardens[0] {
				t.Errorf("the daemon has wardens %v after %v, want another one", now, wardens)
			}
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
			noOrphans(t, f)
		})
	}
}

// gone tells whether a process is no more, or a zombie that somebody else has to reap.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(fields, "Z")
}

// noOrphans fails if any process of any run of the fleet lives.
func noOrphans(t *testing.T, f *fleet) {
	t.Helper()
	for _, m := range f.marks() {
		if pids := of(m.run); len(pids) > 0 {
			t.Errorf("processes of run %s live after all daemons have ended: %v", m.run, pids)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}
