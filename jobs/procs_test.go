//go:build linux

package jobs

import (
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProcs_FindsOnlyItsOwn(t *testing.T) {
	start := func(env string, group int) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "300")
		cmd.Env = []string{"PADDING=" + strings.Repeat("x", 40<<10), env}
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pgid: group}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	id := rand.Text()
	main := start("X=1", 0)
	member := start("X=1", main.Process.Pid)
	outside := start("ROTA_RUN="+id, 0)
	start("ROTA_RUN="+id+"0", 0)  // another run, whose id begins like it
	start("XROTA_RUN="+id, 0)     // another variable
	start("X=ROTA_RUN="+id, 0)    // in a value
	start("ROTA_RUN="+id[:25], 0) // shorter

	p := newProcs(main.Process.Pid, id, newEnvirons())
	if !p.alive() {
		t.Fatal("alive() = false, want true")
	}
	var got []int
	for _, c := range p.held {
		got = append(got, c.pid)
		if c.pidfd < 0 {
			t.Errorf("%d is held without pidfd", c.pid)
		}
	}
	want := []int{member.Process.Pid, outside.Process.Pid}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("held: %v, want a member and a carrier, %v", got, want)
	}
	p.signal(unix.SIGKILL)
	_ = outside.Wait()
	_ = member.Wait()
	if p.alive() {
		t.Errorf("alive() = true after all have ended: %v", p.held)
	}

	t.Run("a carrier found late is signalled too", func(t *testing.T) {
		p := newProcs(main.Process.Pid, id, newEnvirons())
		p.signal(unix.SIGTERM)
		late := start("ROTA_RUN="+id, 0)
		if !p.alive() {
			t.Error("alive() = false, want true")
		}
		if err := late.Wait(); err == nil || err.Error() != "signal: terminated" {
			t.Errorf("it ended with %v, want signal: terminated", err)
		}
		if p.alive() {
			t.Errorf("alive() = true after it has ended: %v", p.held)
		}
	})
	t.Run("without pidfd", func(t *testing.T) {
		outside := start("ROTA_RUN="+id, 0)
		p := newProcs(main.Process.Pid, id, newEnvirons())
		p.held = []proc{{outside.Process.Pid, -1}}
		if !p.alive() {
			t.Error("alive() = false, want true")
		}
		p.signal(unix.SIGKILL)
		_ = outside.Wait()
		if p.alive() {
			t.Error("alive() = true after it has ended")
		}
	})
	t.Run("without an id", func(t *testing.T) {
		start("ROTA_RUN=", 0)
		if p := newProcs(main.Process.Pid, "", newEnvirons()); p.alive() {
			t.Errorf("held: %v, want none", p.held)
		}
	})
}

// A process has no environment in the middle of an exec. This one is there most of the time.
func TestProcs_FindsInExec(t *testing.T) {
	id := rand.Text()
	cmd := exec.CommandContext(t.Context(), writeFile(t, "again", "#!/bin/sh\nexec \"$0\"\n", 0o755))
	cmd.Env = []string{"ROTA_RUN=" + id}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newProcs(os.Getpid(), id, newEnvirons())
	for i := range 2000 {
		if carries, err := p.carries(cmd.Process.Pid); !carries || err != nil {
			t.Errorf("carries() = %v, %v at try %d, want true", carries, err, i)
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// A search that could not look must not say that nothing is left.
func TestProcs_BlindIsAlive(t *testing.T) {
	p := newProcs(os.Getpid(), rand.Text(), newEnvirons())
	if p.alive() {
		t.Fatalf("alive() = true: %v", p.held)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: old.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	blind := p.alive()
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	if !blind {
		t.Error("alive() = false with no descriptor free, want true")
	}
}
