//go:build linux

package jobs

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// within fails if a run did not end between low and slack after its start.
func within(t *testing.T, got Result, low time.Duration) {
	t.Helper()
	// When exec was done is known a little later than it was.
	if took := got.Ended.Sub(got.Started); took < low-100*time.Millisecond || took > slack {
		t.Errorf("the run took %v, want %v to %v", took, low, slack)
	}
}

// slack is what a loaded machine may add to any of the times below.
const slack = 3 * time.Second

// Case E02: a timeout ends the whole group, not only the shell.
func TestCommand_TimeoutEndsGroup(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, _ := testRun(t)
		got := command("sh", "-c", "echo ready; sleep 300; true").Run(endsWith(t, ErrTimedOut, ready(&run)), run)
		check(t, "sleep in a shell", got, TimedOut, 143, words(ErrTimedOut))
		within(t, got, 0)
		wantNone(t, run.ID)
	})
}

// A stopped program acts on SIGTERM only once it is continued.
func TestCommand_TimeoutContinues(t *testing.T) {
	run, out := testRun(t)
	cmd := command(Shell("trap 'echo bye; exit 0' TERM; echo ready; kill -STOP $$; echo went on")...)
	got := cmd.Run(endsWith(t, ErrTimedOut, after(t, ready(&run), 200*time.Millisecond)), run)
	check(t, "stopped", got, TimedOut, 0, words(ErrTimedOut))
	within(t, got, 200*time.Millisecond)
	if !strings.HasPrefix(out.String(), "ready\nbye\n") {
		t.Errorf("printed %q, want ready, bye", out)
	}
}

// stubborn ignores SIGTERM, and so does what it starts.
const stubborn = "trap '' TERM; echo ready; sleep 300"

// Case E05: what ignores SIGTERM is killed after the grace, and Run returns only then.
func TestCommand_GraceThenKill(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, _ := testRun(t)
		cmd := command("sh", "-c", stubborn)
		cmd.KillGrace = 400 * time.Millisecond
		got := cmd.Run(endsWith(t, ErrTimedOut, ready(&run)), run)
		check(t, "SIGTERM ignored", got, TimedOut, 137, words(ErrTimedOut)+"; ended by SIGKILL")
		within(t, got, 400*time.Millisecond)
		wantNone(t, run.ID)
	})
}

func TestCommand_NoGrace(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, _ := testRun(t)
		cmd := command("sh", "-c", stubborn)
		cmd.KillGrace = 0
		got := cmd.Run(endsWith(t, ErrCancelled, ready(&run)), run)
		check(t, "SIGTERM ignored", got, Cancelled, 137, words(ErrCancelled)+"; ended by SIGKILL")
		within(t, got, 0)
	})
}

// After the loss of a lease KillGrace does not count: the scheduler knows the trust deadline.
func TestCommand_LossIsKilledByKill(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			name        string
			cause       error
			grace, kill time.Duration // kill 0: there is none
			outcome     Outcome
			least       time.Duration
		}{
			{"later than the grace", ErrLost, 100 * time.Millisecond, 600 * time.Millisecond, Lost, 600 * time.Millisecond},
			{"earlier than the grace", ErrTimedOut, time.Minute, 100 * time.Millisecond, TimedOut, 100 * time.Millisecond},
			{"or by the grace where there is no Kill", ErrLost, 100 * time.Millisecond, 0, Lost, 100 * time.Millisecond},
		} {
			t.Run(c.name, func(t *testing.T) {
				run, _ := testRun(t)
				told := ready(&run)
				if c.kill > 0 {
					run.Kill = after(t, told, c.kill)
				}
				cmd := command("sh", "-c", stubborn)
				cmd.KillGrace = c.grace
				got := cmd.Run(endsWith(t, c.cause, told), run)
				check(t, "SIGTERM ignored", got, c.outcome, 137, words(c.cause)+"; ended by SIGKILL")
				within(t, got, c.least)
			})
		}
	})
}

// Case E04: what the main process leaves behind is ended too, and its own code counts.
func TestCommand_Leftovers(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			name, script string
			grace        time.Duration
			least        time.Duration
			code         int
		}{
			{"that closed the output", "sleep 300 >/dev/null 2>&1 & exit 3", time.Minute, 0, 3},
			{"that hold the output", "sleep 300 & exit 3", time.Minute, 0, 3},
			{"that ignore SIGTERM", "trap '' TERM; sleep 300 & exit 3", 300 * time.Millisecond, 300 * time.Millisecond, 3},
			{"that are stopped", "sleep 300 & kill -STOP $!; exit 3", time.Minute, 0, 3},
			{"that end within the grace", "(trap 'sleep 0.3; exit' TERM; : >ready; while :; do sleep 0.05; done) & until [ -e ready ]; do sleep 0.01; done; exit 3", time.Minute, 300 * time.Millisecond, 3},
			{"in a session of their own", "setsid sleep 300 & sleep 0.2; exit 3", time.Minute, 0, 3},
			{"in a session of their own that ignore SIGTERM", "trap '' TERM; setsid sleep 300 & sleep 0.2; exit 3", 300 * time.Millisecond, 500 * time.Millisecond, 3},
			{"in a group of their own", "set -m; sleep 300 & exit 3", time.Minute, 0, 3},
			{"daemons", "setsid sh -c 'sleep 300 & exec sleep 300' >/dev/null 2>&1 & sleep 0.2; exit 3", time.Minute, 0, 3},
		} {
			t.Run(c.name, func(t *testing.T) {
				run, _ := testRun(t)
				cmd := command(Shell(c.script)...)
				cmd.KillGrace, cmd.Dir = c.grace, t.TempDir()
				got := cmd.Run(t.Context(), run)
				check(t, c.script, got, Failed, c.code, "exit code 3")
				within(t, got, c.least)
				wantNone(t, run.ID)
			})
		}
	})
}

func TestCommand_TimeoutEndsSessions(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, out := testRun(t)
		cmd := command(Shell("setsid sh -c 'trap \"echo bye\" TERM; echo ready; sleep 300' & wait; echo waited")...)
		// A shell acts on a trap when its child has ended, so the child must be there to be signalled.
		got := cmd.Run(endsWith(t, ErrTimedOut, after(t, ready(&run), 300*time.Millisecond)), run)
		check(t, "setsid", got, TimedOut, 143, words(ErrTimedOut))
		if !strings.Contains(out.String(), "bye") {
			t.Errorf("the session printed %q, want bye: SIGTERM must reach it before SIGKILL", out)
		}
		wantNone(t, run.ID)
	})
}

// A process outside of the run may hold its output for ever; what was printed is complete.
func TestCommand_OutputHeldByStranger(t *testing.T) {
	run, out := testRun(t)
	// Without ROTA_RUN and in a session of its own only a warden finds it.
	cmd := command(Shell("env -i /usr/bin/setsid /bin/sleep 20 & echo $!; sleep 0.3; head -c 50000 /dev/zero")...)
	cmd.Warden = nil
	start := time.Now()
	got := cmd.Run(t.Context(), run)
	check(t, "a stranger", got, Succeeded, 0, "")
	if took := time.Since(start); took > slack {
		t.Errorf("Run took %v, want at most %v", took, slack)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	stranger, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(stranger, unix.SIGKILL); err != nil {
		t.Errorf("the stranger, %d, did not live: %v", stranger, err)
	}
	if want := int64(len(line)) + 1 + 50000; out.Total() != want {
		t.Errorf("copied %d bytes, want %d", out.Total(), want)
	}
}

// A slow writer loses nothing when the program is long gone.
func TestCommand_SlowOutput(t *testing.T) {
	run, _ := testRun(t)
	out := NewOutput(0)
	run.Output = writerFunc(func(p []byte) (int, error) {
		time.Sleep(50 * time.Millisecond)
		return out.Write(p)
	})
	got := command("head", "-c", "300000", "/dev/zero").Run(t.Context(), run)
	check(t, "head", got, Succeeded, 0, "")
	if out.Total() != 300000 {
		t.Errorf("copied %d bytes, want 300000", out.Total())
	}
}

func TestCommand_FailingOutput(t *testing.T) {
	run, _ := testRun(t)
	calls := 0
	run.Output = writerFunc(func([]byte) (int, error) { calls++; return 0, io.ErrClosedPipe })
	got := command("head", "-c", "1000000", "/dev/zero").Run(t.Context(), run)
	check(t, "head", got, Succeeded, 0, "")
	if calls != 1 {
		t.Errorf("Output was called %d times, want 1: it failed", calls)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
