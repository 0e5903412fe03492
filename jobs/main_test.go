//go:build linux

package jobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable makes the test binary play a daemon, so that tests can stop, kill and limit one.
const roleVariable = "JOBS_TEST_ROLE"

func TestMain(m *testing.M) {
	if without := os.Getenv(poorVariable); IsWarden() && without != "" {
		os.Exit(servePoorly(without))
	}
	if IsWarden() {
		os.Exit(ServeWarden())
	}
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(testAll(m))
	case "hold":
		holdARun()
	case "show-death":
		showDeath()
	case "wish":
		wish()
	case "show":
		showAProcess()
	case "adopt":
		adoptOrphans()
	case "ignore":
		ignoreAChild()
	case "cgroup":
		keepCgroups()
	default:
		fmt.Fprintf(os.Stderr, "no such role: %q\n", role)
		os.Exit(2)
	}
}

// warden is the one that tests share.
var warden *Warden

func testAll(m *testing.M) (code int) {
	var err error
	if warden, err = StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code = m.Run()
	if err := warden.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// testRun returns a Run with an id of its own and the Output that it prints to.
func testRun(t *testing.T) (Run, *Output) {
	t.Helper()
	out := NewOutput(64 << 10)
	return Run{
		Job: "backup", ID: rand.Text(), Tick: time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC),
		Attempt: 1, Token: 1795968430725800, Lock: "backup", Host: "web-1", Namespace: "rota",
		Output: out,
	}, out
}

// command returns a Command with the environment of a job and a grace that no test waits for, in the
// warden that tests share.
func command(args ...string) Command {
	return Command{Args: args, Base: BaseEnv(nil, "", nil), KillGrace: time.Minute, Warden: warden}
}

// startsCommands is what command is for one of the two ways.
type startsCommands func(args ...string) Command

// eachWay runs a test in the warden, in one that gives runs cgroups, and without one. No way may be told
// from another by what a program does and how its run ends.
func eachWay(t *testing.T, test func(t *testing.T, command startsCommands)) {
	t.Helper()
	t.Run("in a warden", func(t *testing.T) { test(t, command) })
	t.Run("in a cgroup", func(t *testing.T) {
		w := confinedWarden(t, os.Stderr)
		test(t, func(args ...string) Command {
			c := command(args...)
			c.Warden = w
			return c
		})
	})
	t.Run("without", func(t *testing.T) {
		test(t, func(args ...string) Command {
			c := command(args...)
			c.Warden = nil
			return c
		})
	})
}

// ready makes the run tell when it prints for the first time, which is when it is set up. Time
// alone says little about that on a loaded machine.
func ready(run *Run) <-chan struct{} {
	told := make(chan struct{})
	var once sync.Once
	to := run.Output
	run.Output = writerFunc(func(p []byte) (int, error) {
		once.Do(func() { close(told) })
		return to.Write(p)
	})
	return told
}

// endsWith returns a context that ends with cause once event has happened.
func endsWith(t *testing.T, cause error, event <-chan struct{}) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		select {
		case <-event:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// after returns a channel that closes d after event.
func after(t *testing.T, event <-chan struct{}, d time.Duration) <-chan struct{} {
	t.Helper()
	later := make(chan struct{})
	go func() {
		select {
		case <-event:
			time.Sleep(d)
			close(later)
		case <-t.Context().Done():
		}
	}()
	return later
}

// now is an event that has happened.
func now() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// check compares what a Result says, except its times. A code of -1 means none.
func check(t *testing.T, what string, got Result, outcome Outcome, code int, reason string) {
	t.Helper()
	gotCode := -1
	if got.ExitCode != nil {
		gotCode = *got.ExitCode
	}
	if got.Outcome != outcome || gotCode != code || got.Reason != reason {
		t.Errorf("%s: got %s, exit code %d, reason %q; want %s, %d, %q",
			what, got.Outcome, gotCode, got.Reason, outcome, code, reason)
	}
}

// carriersOf lists the live processes that show the run's id, by another way than procs.
func carriersOf(t *testing.T, id string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && bytes.Contains(text, []byte(runVariable+"="+id)) {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// wantNone fails if any process of the run lives.
func wantNone(t *testing.T, id string) {
	t.Helper()
	if pids := carriersOf(t, id); len(pids) > 0 {
		t.Errorf("processes of the run that live: %v, want none", pids)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
}

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 10s", what)
		}
	}
}

// writeFile makes a file with exactly this mode and returns its path.
func writeFile(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}
