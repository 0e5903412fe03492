//go:build linux

package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
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

// showAProcess is a daemon whose one run shows what it inherited.
func showAProcess() {
	// As the daemon does. Go leaves these two alone where they are ignored at the start, as under
	// nohup, unless somebody asks for them; a job would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	warden, err := StartWarden(WardenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer warden.Close()
	cmd := Command{
		Args: Shell("ulimit -Sn; ulimit -Hn; grep -E '^Sig(Blk|Ign)' /proc/self/status; " +
			"ls /proc/self/fd | tr '\\n' ' '; readlink /proc/self/fd/0; " +
			"readlink /proc/$PPID/fd/* | grep passwd"), // what the warden has

		Warden: warden,
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
	var runs sync.WaitGroup
	for i := range 20 {
		run, out := testRun(t)
		cmd := command("ls", "/proc/self/fd")
		if i%2 == 0 {
			cmd.Warden = nil
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
