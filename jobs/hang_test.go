//go:build linux

package jobs

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// in is a command that runs in a warden of the test's own.
func in(w *Warden, args ...string) Command {
	cmd := command(args...)
	cmd.Warden = w
	return cmd
}

// A file system that does not answer holds up the run that names it, and no other: whatever of the run is
// there, and however the run ends.
func TestCommand_HangingFiles(t *testing.T) {
	w := startWarden(t)
	program, freeProgram := hangingProgram(t)
	defer freeProgram()
	script := writeFile(t, "script", "#!"+program+"\n", 0o755)
	for _, c := range []struct {
		name   string
		change func(*Command)
	}{
		{"the program", func(c *Command) { c.Args = []string{program} }},
		{"its interpreter", func(c *Command) { c.Args = []string{script} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			hangs := in(w, "true")
			c.change(&hangs)
			wait := func() Result {
				run, _ := testRun(t)
				run.StartBy = boottime() + 200*time.Millisecond
				return hangs.Run(t.Context(), run)
			}
			const words = "not started by its start deadline: the file system of the program, the directory or env_file does not answer"
			var first Result
			var runs sync.WaitGroup
			runs.Go(func() { first = wait() })
			run, _ := testRun(t)
			check(t, "another one", in(w, "true").Run(t.Context(), run), Succeeded, 0, "")
			runs.Wait()
			check(t, "the one that hangs", first, Failed, -1, fmt.Sprintf("start %q: %s", hangs.Args[0], words))
			if !first.Unstarted || !first.Started.IsZero() {
				t.Errorf("the one that hangs: %+v, want it unstarted", first)
			}
			// No second thread for a job that comes back every minute.
			const still = "not started: the file system of the program, the directory or env_file does not answer, and has not since an earlier run asked"
			check(t, "the next of its kind", wait(), Failed, -1, fmt.Sprintf("start %q: %s", hangs.Args[0], still))
		})
	}
	t.Run("and it ends", func(t *testing.T) {
		other, free := hangingProgram(t)
		defer free()
		run, _ := testRun(t)
		ctx := endsWith(t, ErrTimedOut, after(t, now(), 100*time.Millisecond))
		check(t, "a timeout", in(w, other).Run(ctx, run), TimedOut, -1, words(ErrTimedOut))

		third, freeThird := hangingProgram(t)
		defer freeThird()
		run.Kill = after(t, now(), 100*time.Millisecond)
		check(t, "Kill", in(w, third).Run(t.Context(), run), Lost, -1, words(ErrLost))

		// When it answers again everything is as it was.
		free()
		eventually(t, "it runs again", func() bool {
			run, _ := testRun(t)
			return in(w, other).Run(t.Context(), run).Outcome == Succeeded
		})
	})
}

// No program starts after its run's start deadline: not the one whose exec hangs, which is killed, nor those
// that wait for it.
func TestWarden_StartDeadlines(t *testing.T) {
	w := startWarden(t)
	path, free := hangingExec(t)
	defer free()
	startBy := func(d time.Duration) (run Run, out *Output) {
		run, out = testRun(t)
		run.StartBy = boottime() + d
		return run, out
	}
	run, out := startBy(-time.Second)
	got := in(w, "echo", "started").Run(t.Context(), run)
	check(t, "one that comes too late", got, Failed, -1, `start "echo": not started: its start deadline came first`)
	if !got.Unstarted || out.Total() > 0 {
		t.Errorf("one that comes too late: %+v, printed %q; want it unstarted", got, out)
	}

	var runs sync.WaitGroup
	runs.Go(func() {
		run, _ := startBy(1500 * time.Millisecond)
		got := in(w, path).Run(t.Context(), run)
		check(t, "the one that hangs", got, Failed, -1, fmt.Sprintf("start %q: not started: its start deadline came first", path))
		if !got.Unstarted || !got.Started.IsZero() {
			t.Errorf("the one that hangs: %+v, want it unstarted", got)
		}
	})
	eventually(t, "exec hangs", func() bool { return len(forkedBy(t, w.PID())) == 1 })
	run, out = startBy(300 * time.Millisecond)
	check(t, "one that waits", in(w, "echo", "started").Run(t.Context(), run), Failed, -1, `start "echo": not started: its start deadline came first`)
	if out.Total() > 0 {
		t.Errorf("one that waits printed %q", out)
	}
	run, _ = startBy(time.Minute)
	check(t, "one that has the time", in(w, "true").Run(t.Context(), run), Succeeded, 0, "")
	runs.Wait()
}

// An exec that hangs is killed after a while, whatever the deadlines of its run, so that starts go on.
func TestWarden_ExecHangsForLong(t *testing.T) {
	t.Setenv(poorVariable, "patience")
	var log journal
	w, err := StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	path, free := hangingExec(t)
	defer free()
	var runs sync.WaitGroup
	hangs, _ := testRun(t)
	runs.Go(func() {
		got := in(w, path).Run(t.Context(), hangs)
		check(t, "the one that hangs", got, Failed, -1, fmt.Sprintf("start %q: %v", path, errExecHung))
	})
	eventually(t, "exec hangs", func() bool { return len(forkedBy(t, w.PID())) == 1 })
	for range 3 {
		runs.Go(func() {
			run, _ := testRun(t)
			check(t, "one that waits", in(w, "true").Run(t.Context(), run), Succeeded, 0, "")
		})
	}
	runs.Wait()
	eventually(t, "somebody is told", func() bool {
		return strings.Contains(log.String(), `level=WARN msg="start hangs" run=`+hangs.ID)
	})
}

// Where even a kill does not end an exec, those that wait for it are told so and not kept.
func TestServer_RefusesBehindAnExec(t *testing.T) {
	text, err := play(t, "behind", "").Output()
	if err != nil {
		t.Error(err)
	}
	if want := "said failedBehind\n"; string(text) != want {
		t.Errorf("it printed %q, want %q", text, want)
	}
}

// waitBehind is a warden that has an exec which neither ends nor can be ended.
func waitBehind() {
	h, err := newHand()
	if err != nil {
		fmt.Println(err)
		return
	}
	h.hangsAfter, h.startPatience = 50*time.Millisecond, 200*time.Millisecond
	start := func(id runID, args ...string) {
		body := (&spec{path: args[0], dir: "/", args: args}).encode()
		h.say(startMessage{run: id, spec: body, specLen: uint32(len(body))})
	}
	// As if the spawner had it, and never gave it back.
	h.starting, h.given = &served{id: 1, job: &job{thread: os.Getpid()}}, boottime()
	h.runs[1] = h.starting
	start(2, "/bin/true")
	for {
		h.round()
		for _, m := range h.heard() {
			if m, ok := m.(failedMessage); ok && m.run == 2 && m.why == failedBehind {
				fmt.Println("said failedBehind")
				unix.Exit(0)
			} else if ok {
				fmt.Println(m)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}
