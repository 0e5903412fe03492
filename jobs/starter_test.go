//go:build linux

package jobs

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// play starts this test binary in a role, by way of a shell that sets up what it inherits.
func play(t *testing.T, role, setup string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", setup+` exec "$0"`, self)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// holdARun is a daemon with a run that does not end. The run prints its main process' id.
func holdARun() {
	starter := NewStarter()
	defer starter.Close()
	cmd := Command{Args: Shell("echo $$; exec sleep 300"), Starter: starter}
	cmd.Run(context.Background(), Run{Output: os.Stdout})
}

// Case L16: a daemon that is killed takes its runs' main processes with it.
func TestStarter_DiesWithDaemon(t *testing.T) {
	daemon := play(t, "hold", "")
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the run's pid: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("before the daemon is killed its run is gone: %v", err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	eventually(t, "the main process dies with its daemon", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// A PID 1 that reaps nothing leaves a zombie, which is as dead.
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// golang.org/issue/27505: the signal comes when the thread that forked ends, not the process.
func TestStarter_OutlivesThreads(t *testing.T) {
	starter := NewStarter()
	defer starter.Close()
	var runs sync.WaitGroup
	for range 10 {
		run, _ := testRun(t)
		cmd := command("sleep", "0.5")
		cmd.Starter = starter
		runs.Go(func() {
			// Its thread ends with it, as it does not unlock.
			runtime.LockOSThread()
			check(t, "sleep", cmd.Run(t.Context(), run), Succeeded, 0, "")
		})
	}
	for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
		var threads sync.WaitGroup
		for range 20 {
			threads.Go(runtime.LockOSThread)
		}
		threads.Wait()
		time.Sleep(time.Millisecond)
	}
	runs.Wait()
}

func TestStarter_Close(t *testing.T) {
	starter := NewStarter()
	starter.Close()
	starter.Close()
	run, _ := testRun(t)
	cmd := command("/bin/true")
	cmd.Starter = starter
	check(t, "after Close", cmd.Run(t.Context(), run), Failed, -1, `start "/bin/true": the starter is closed`)
}

// A run whose end comes while it waits for its turn is not started, and does not wait on.
func TestStarter_EndWhileWaiting(t *testing.T) {
	stuck := &Starter{requests: make(chan startRequest)} // nobody takes any
	run, _ := testRun(t)
	cmd := command("/bin/true")
	cmd.Starter = stuck
	got := cmd.Run(endsWith(t, ErrTimedOut, after(t, now(), 50*time.Millisecond)), run)
	check(t, "timed out", got, TimedOut, -1, words(ErrTimedOut))
	run.Kill = after(t, now(), 50*time.Millisecond)
	check(t, "killed", cmd.Run(t.Context(), run), Lost, -1, words(ErrLost))
}

// showAProcess is a daemon whose one run shows what it inherited.
func showAProcess() {
	// As the daemon does. Go leaves these two alone where they are ignored at the start, as under
	// nohup, unless somebody asks for them; a job would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	starter := NewStarter()
	defer starter.Close()
	cmd := Command{
		Args: Shell("ulimit -Sn; ulimit -Hn; grep -E '^Sig(Blk|Ign)' /proc/self/status; " +
			"ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0"),
		Starter: starter,
	}
	cmd.Run(context.Background(), Run{Output: os.Stdout})
}

// Cases E18 and E24: what a program inherits does not depend on what the daemon did with itself
// or was started with: descriptors, the limit that Go raises, ignored signals. systemd ignores
// SIGPIPE for its services.
func TestCommand_Inherits(t *testing.T) {
	setup := "ulimit -Sn 1024; ulimit -Hn 4096; trap '' PIPE TERM USR1; exec 7</etc/passwd 9>/dev/null;"
	got, err := play(t, "show", setup).Output()
	if err != nil {
		t.Fatal(err)
	}
	const want = "1024\n4096\n" +
		"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n" +
		"0 1 2 3 /dev/null\n" // 3 is the directory that ls reads
	if got := withoutGlibcs(string(got)); got != want {
		t.Errorf("after %q the run shows\n%s\nwant\n%s", setup, got, want)
	}
}

// Case E18: 20 at once, each with its own pipe.
func TestCommand_Descriptors(t *testing.T) {
	secret, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	starter := NewStarter()
	defer starter.Close()
	var runs sync.WaitGroup
	for i := range 20 {
		run, out := testRun(t)
		cmd := command("ls", "/proc/self/fd")
		if i%2 == 0 {
			cmd.Starter = starter
		}
		runs.Go(func() {
			check(t, "ls", cmd.Run(t.Context(), run), Succeeded, 0, "")
			if want := "0\n1\n2\n3\n"; out.String() != want {
				t.Errorf("descriptors of a run: %q, want %q (3 is ls's own)", out, want)
			}
		})
	}
	runs.Wait()
}

// withoutGlibcs clears signals 32 and 33 in masks of /proc/PID/status: they are glibc's own, and
// its posix_spawn, so also make, ignores them for every child. No program can tell.
func withoutGlibcs(status string) string {
	return regexp.MustCompile(`[0-9a-f]{16}`).ReplaceAllStringFunc(status, func(hex string) string {
		mask, _ := strconv.ParseUint(hex, 16, 64)
		return fmt.Sprintf("%016x", mask&^(1<<31|1<<32))
	})
}
