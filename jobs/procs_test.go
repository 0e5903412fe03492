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

	p := newProcs(main.Process.Pid, id)
	defer p.release()
	if !p.alive() {
		t.Fatal("alive() = false, want true")
	}
	if len(p.members) != 1 || p.members[0] != member.Process.Pid {
		t.Errorf("members %v, want [%d]", p.members, member.Process.Pid)
	}
	if len(p.carriers) != 1 || p.carriers[0].pid != outside.Process.Pid || p.carriers[0].pidfd < 0 {
		t.Errorf("carriers %v, want [%d with a pidfd]", p.carriers, outside.Process.Pid)
	}
	p.signalCarriers(unix.SIGKILL)
	_ = outside.Wait()
	_ = member.Process.Kill()
	_ = member.Wait()
	if p.alive() {
		t.Errorf("alive() = true after all have ended: members %v, carriers %v", p.members, p.carriers)
	}

	t.Run("without pidfd", func(t *testing.T) {
		outside := start("ROTA_RUN="+id, 0)
		p := newProcs(main.Process.Pid, id)
		p.carriers = []carrier{{outside.Process.Pid, -1}}
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
		if p := newProcs(main.Process.Pid, ""); p.alive() {
			t.Errorf("members %v, carriers %v, want none", p.members, p.carriers)
		}
	})
}

// A search that could not look must not say that nothing is left.
func TestProcs_BlindIsAlive(t *testing.T) {
	p := newProcs(os.Getpid(), rand.Text())
	if p.alive() {
		t.Fatalf("alive() = true: members %v, carriers %v", p.members, p.carriers)
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
