//go:build linux

package jobs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deaf ignores SIGTERM, itself and in a session of its own.
const deaf = "trap '' TERM; setsid sleep 300 & echo ready; sleep 300"

// deadlinesIn are deadlines that far from now.
func deadlinesIn(term, kill time.Duration) *Deadlines {
	d := new(Deadlines)
	now := boottime()
	d.Move(now+term, now+kill)
	return d
}

// The warden ends a run at its deadlines although nobody tells it to: neither ctx nor Kill end here.
func TestWarden_KeepsDeadlines(t *testing.T) {
	for _, c := range []struct {
		name, script string
		term, kill   time.Duration
		code         int
		reason       string
		least        time.Duration
	}{
		{"SIGTERM at the first", "sleep 300", 300 * time.Millisecond, time.Minute, 143, "", 300 * time.Millisecond},
		{"SIGKILL at the second", deaf, 300 * time.Millisecond, 700 * time.Millisecond, 137, killedToo, 700 * time.Millisecond},
		{"SIGKILL alone", "sleep 300", 0, 300 * time.Millisecond, 137, killedToo, 300 * time.Millisecond},
		{"SIGTERM alone", "sleep 300", 300 * time.Millisecond, 0, 143, "", 300 * time.Millisecond},
		{"whatever the program answers", "trap 'exit 0' TERM; while :; do sleep 0.05; done", 300 * time.Millisecond, time.Minute, 0, "", 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run, _ := testRun(t)
			run.Deadlines = new(Deadlines)
			began, now := time.Now(), boottime()
			at := func(d time.Duration) time.Duration { return map[bool]time.Duration{true: now + d}[d > 0] }
			run.Deadlines.Move(at(c.term), at(c.kill))
			got := command(Shell(c.script)...).Run(t.Context(), run)
			check(t, c.script, got, Lost, c.code, words(errUnvouched)+c.reason)
			if took := got.Ended.Sub(began); took < c.least || took > c.least+slack {
				t.Errorf("it ended %v after the deadlines were set, want %v", took, c.least)
			}
			wantNone(t, run.ID)
		})
	}
}

// As long as somebody moves the deadlines the run goes on, far beyond the first ones.
func TestWarden_MovedDeadlines(t *testing.T) {
	run, _ := testRun(t)
	run.Deadlines = deadlinesIn(500*time.Millisecond, time.Second)
	moving, stop := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() {
		for moving.Err() == nil {
			now := boottime()
			run.Deadlines.Move(now+500*time.Millisecond, now+time.Second)
			time.Sleep(50 * time.Millisecond)
		}
	})
	got := command(Shell("sleep 2; exit 3")...).Run(t.Context(), run)
	check(t, "moved on", got, Failed, 3, "exit code 3")
	stop()
	mover.Wait()

	run.Deadlines = deadlinesIn(time.Minute, time.Minute)
	time.AfterFunc(200*time.Millisecond, func() { run.Deadlines.Move(1, 1) })
	check(t, "moved back", command(Shell("sleep 300")...).Run(t.Context(), run), Lost, 137, words(errUnvouched)+killedToo)
}

// A grace may be longer than a lease, which is renewed for as long as anything of the run lives: nothing
// cuts it short.
func TestWarden_GraceBeyondTheLease(t *testing.T) {
	for _, c := range []struct {
		name, script string
		outcome      Outcome
		code         int
		reason       string
	}{
		{"after a timeout", stubborn, TimedOut, 137, words(ErrTimedOut) + killedToo},
		{"for what is left behind", "trap '' TERM; echo ready; sleep 300 & exit 3", Failed, 3, "exit code 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, _ := testRun(t)
			run.Deadlines = deadlinesIn(400*time.Millisecond, 500*time.Millisecond)
			moving, stop := context.WithCancel(t.Context())
			var mover sync.WaitGroup
			mover.Go(func() {
				for moving.Err() == nil {
					now := boottime()
					run.Deadlines.Move(now+400*time.Millisecond, now+500*time.Millisecond)
					time.Sleep(50 * time.Millisecond)
				}
			})
			ctx := t.Context()
			if c.outcome == TimedOut {
				ctx = endsWith(t, ErrTimedOut, ready(&run))
			}
			cmd := command("sh", "-c", c.script)
			cmd.KillGrace = 1500 * time.Millisecond
			got := cmd.Run(ctx, run)
			check(t, "SIGTERM ignored", got, c.outcome, c.code, c.reason)
			within(t, got, cmd.KillGrace)
			wantNone(t, run.ID)
			stop()
			mover.Wait()
		})
	}
}

// A warden that wakes late hears what was said before it judges: what was moved in time has not passed.
func TestWarden_WakesLate(t *testing.T) {
	w := startWarden(t)
	run, _ := testRun(t)
	told := ready(&run)
	run.Deadlines = deadlinesIn(400*time.Millisecond, 500*time.Millisecond)
	go func() {
		<-told
		_ = unix.Kill(w.PID(), unix.SIGSTOP)
		now := boottime()
		run.Deadlines.Move(now+time.Minute, now+time.Minute)
		time.Sleep(700 * time.Millisecond)
		_ = unix.Kill(w.PID(), unix.SIGCONT)
	}()
	cmd := command(Shell("echo ready; sleep 1.5; exit 3")...)
	cmd.Warden = w
	check(t, "moved while the warden slept", cmd.Run(t.Context(), run), Failed, 3, "exit code 3")

	// And one that was not moved has passed, wholly: no SIGTERM is worth sending any more.
	run, out := testRun(t)
	told = ready(&run)
	run.Deadlines = deadlinesIn(400*time.Millisecond, 500*time.Millisecond)
	go func() {
		<-told
		_ = unix.Kill(w.PID(), unix.SIGSTOP)
		time.Sleep(700 * time.Millisecond)
		_ = unix.Kill(w.PID(), unix.SIGCONT)
	}()
	cmd = command(Shell("trap 'echo bye; exit' TERM; echo ready; while :; do sleep 0.01; done")...)
	cmd.Warden = w
	check(t, "passed while the warden slept", cmd.Run(t.Context(), run), Lost, 137, words(errUnvouched)+killedToo)
	if out.String() != "ready\n" {
		t.Errorf("printed %q, want no word after SIGKILL was due", out)
	}
}

// What is sent to a daemon, by a terminal or by whoever stops a service, does not end its warden.
func TestWarden_OutlivesSignals(t *testing.T) {
	w := startWarden(t)
	if session, err := unix.Getsid(w.PID()); err != nil || session != w.PID() {
		t.Errorf("the warden's session is %d, %v, want its own, %d", session, err, w.PID())
	}
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2} {
		if err := unix.Kill(w.PID(), sig); err != nil {
			t.Fatal(err)
		}
	}
	pid := w.PID()
	run, _ := testRun(t)
	cmd := command(Shell("for s in HUP INT TERM PIPE USR1 USR2; do kill -$s $PPID; done; exit 3")...)
	cmd.Warden = w
	check(t, "the next run", cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
	if w.PID() != pid {
		t.Errorf("the warden is %d, was %d", w.PID(), pid)
	}
}

// The last look at the clock is right before exec.
func TestWarden_TooLateToStart(t *testing.T) {
	run, out := testRun(t)
	run.Deadlines = deadlinesIn(-2*time.Second, -time.Second)
	got := command("echo", "started").Run(t.Context(), run)
	check(t, "a deadline that has passed", got, Lost, -1, words(errTooLate))
	if !got.Started.IsZero() || out.Total() > 0 {
		t.Errorf("started %v, printed %q, want neither", got.Started, out)
	}
}

// A warden that was not started by a daemon says so.
func TestServeWarden_ByHand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = []string{wardenName}
	text, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want 1", err)
	}
	if want := "rota: warden: there is no daemon: it is started by one, not by hand\n"; string(text) != want {
		t.Errorf("it printed %q, want %q", text, want)
	}
}

// A program that does not ask IsWarden would start itself for ever.
func TestStartWarden_NotInOne(t *testing.T) {
	t.Setenv(wardenVariable, "1")
	w, err := StartWarden(WardenOptions{})
	if err == nil {
		_ = w.Close()
		t.Fatal("StartWarden in a warden's environment succeeded")
	}
	if want := "jobs: this process was started as a warden; main has to ask jobs.IsWarden first"; err.Error() != want {
		t.Errorf("StartWarden = %q, want %q", err, want)
	}
}

// Arguments that do not fit into a packet go another way, and those that fit nowhere are refused.
func TestWarden_LongArguments(t *testing.T) {
	run, out := testRun(t)
	var args []string
	for range 15 {
		args = append(args, strings.Repeat("x", 100<<10))
	}
	check(t, "1.5 MB", command(append([]string{"sh", "-c", "echo $# ${#1}", "sh"}, args...)...).Run(t.Context(), run), Succeeded, 0, "")
	if want := "15 102400\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	for len(args) < 100 {
		args = append(args, args[0])
	}
	got := command(append([]string{"true"}, args...)...).Run(t.Context(), run)
	if got.Outcome != Failed || !strings.Contains(got.Reason, "argument list too long: 10240") {
		t.Errorf("10 MB: %s, %q; want failed, argument list too long", got.Outcome, got.Reason)
	}
}

// What a run used is known: of what it waited for, and of orphans.
func TestWarden_Usage(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, _ := testRun(t)
		const spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
		got := command(Shell(spin)...).Run(t.Context(), run)
		if got.CPU < 20*time.Millisecond || got.CPU > got.Ended.Sub(got.Started)+50*time.Millisecond {
			t.Errorf("CPU = %v of %v, want most of it", got.CPU, got.Ended.Sub(got.Started))
		}
		// Whatever forked it counts, too, up to the exec.
		if most := int64(memoryKiB(t, "VmHWM"))<<10 + 100<<20; got.PeakMemoryBytes < 500<<10 || got.PeakMemoryBytes > most {
			t.Errorf("PeakMemoryBytes = %d, want a shell's", got.PeakMemoryBytes)
		}
	})
	t.Run("of orphans", func(t *testing.T) {
		run, _ := testRun(t)
		// The main process does nothing; an orphan of its works, and ends before it.
		done := filepath.Join(t.TempDir(), "done")
		script := "(setsid sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; : >" + done + "' &) ; until [ -e " + done + " ]; do sleep 0.02; done; sleep 0.1"
		got := command(Shell(script)...).Run(t.Context(), run)
		check(t, script, got, Succeeded, 0, "")
		if got.CPU < 20*time.Millisecond {
			t.Errorf("CPU = %v, want that of the orphan", got.CPU)
		}
	})
}
