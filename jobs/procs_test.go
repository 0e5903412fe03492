//go:build linux

package jobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// adoptOrphans is a daemon that gets the orphans of its 200 runs, as PID 1 does. It prints how
// many runs ended in another way than their script, and how many zombies are left.
func adoptOrphans() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println(err)
		return
	}
	starter := NewStarter()
	defer starter.Close()
	var wrong, zombies int
	var mu sync.Mutex
	var hosts sync.WaitGroup
	for host := range 4 {
		hosts.Go(func() {
			for i := range 50 {
				code := (host*50 + i) % 256
				// The first orphan ends before the main process, the others are ended after it, one
				// of them in a session of its own.
				script := fmt.Sprintf("( (true &) & ); ( (sleep 300 &) & ); (setsid sleep 300 &); exit %d", code)
				cmd := command(Shell(script)...)
				cmd.Starter = starter
				got := cmd.Run(context.Background(), Run{ID: rand.Text()})
				if got.ExitCode == nil || *got.ExitCode != code {
					mu.Lock()
					wrong++
					mu.Unlock()
				}
			}
		})
	}
	hosts.Wait()
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if string(fields[0]) == "Z" && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			zombies++
		}
	}
	children, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range children {
		if text, _ := os.ReadFile(file); len(text) > 0 {
			fmt.Printf("left %s\n", text)
		}
	}
	fmt.Printf("wrong %d zombies %d\n", wrong, zombies)
}

// Case E09: the adopted orphans of a run are reaped, and no run's status is taken by it.
func TestProcs_ReapsAdopted(t *testing.T) {
	got, err := play(t, "adopt", "").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "wrong 0 zombies 0\n"; string(got) != want {
		t.Errorf("after 200 runs with orphans: got %q, want %q", got, want)
	}
}

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
	p.signalCarriers(unix.SIGKILL)
	_ = outside.Wait()
	_ = member.Process.Kill()
	_ = member.Wait()
	if p.alive() {
		t.Errorf("alive() = true after all have ended: %v", p.held)
	}

	t.Run("a carrier found late is signalled too", func(t *testing.T) {
		p := newProcs(main.Process.Pid, id, newEnvirons())
		p.signalCarriers(unix.SIGTERM)
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
		p.signalCarriers(unix.SIGKILL)
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

// Hundreds of runs leave no descriptor, goroutine or process behind.
func TestCommand_LeavesNothing(t *testing.T) {
	starter := NewStarter()
	defer starter.Close()
	count := func() (fds, goroutines int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), runtime.NumGoroutine()
	}
	round := func(n int) {
		for i := range n {
			run, _ := testRun(t)
			cmd := command(Shell([]string{"exit 0", "exit 3", "sleep 300 & exit 1", "setsid sleep 300 & sleep 0.01"}[i%4])...)
			if i%8 < 4 {
				cmd.Starter = starter
			}
			if i%10 == 9 {
				cmd.Args = []string{"/no/such"}
			}
			if i%10 == 8 {
				run.Output = nil
			}
			cmd.Run(t.Context(), run)
		}
	}
	round(20) // what the runtime opens once
	// The collector would close a forgotten file.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	fds, goroutines := count()
	round(300)
	eventually(t, fmt.Sprintf("back to %d descriptors and %d goroutines", fds, goroutines), func() bool {
		f, g := count()
		return f <= fds && g <= goroutines
	})
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		if children, _ := os.ReadFile(file); len(children) > 0 {
			t.Errorf("children left: %s", children)
		}
	}
}
