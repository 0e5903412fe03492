//go:build linux

package jobs

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hanging returns environs in which reading pid's environment hangs until free is called, as it
// does in /proc next to a process in uninterruptible sleep.
func hanging(t *testing.T, pid int) (e *environs, free func()) {
	t.Helper()
	e = newEnvirons()
	e.root = t.TempDir()
	fifo := filepath.Join(e.root, strconv.Itoa(pid), "environ")
	if err := os.Mkdir(filepath.Dir(fifo), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		// Opening the other end lets the reader's open return, closing it ends its read.
		f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			f.Close()
		}
	}
}

func TestEnvirons_HangsOnce(t *testing.T) {
	const pid = 4711
	e, free := hanging(t, pid)
	e.patience = 200 * time.Millisecond
	for try, want := range []time.Duration{e.patience, 0, 0} {
		start := time.Now()
		got := e.look(pid)
		if took := time.Since(start); took < want || took > want+100*time.Millisecond {
			t.Errorf("look %d took %v, want %v", try, took, want)
		}
		if len(got.runs) > 0 || got.blank || got.err != nil {
			t.Errorf("look %d = %+v, want no run and no error", try, got)
		}
	}
	free()
	eventually(t, "the process is read again once its read has returned", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return !e.stuck[pid]
	})
}

// The SIGKILL at the end of a lease does not wait for a search that hangs.
func TestGroup_KillWaitsForNoSearch(t *testing.T) {
	e, free := hanging(t, os.Getppid())
	e.patience = time.Minute
	main, err := os.StartProcess("/bin/sh", Shell("trap '' TERM; sleep 300"), &os.ProcAttr{
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "SIGTERM is ignored", func() bool {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(main.Pid) + "/status")
		_, ignored, found := strings.Cut(string(status), "SigIgn:\t")
		if err != nil || !found || len(ignored) < 16 {
			return false
		}
		mask, err := strconv.ParseUint(ignored[:16], 16, 64)
		return err == nil && mask&(1<<(syscall.SIGTERM-1)) != 0
	})
	kill := make(chan struct{})
	g := watch(main, newProcs(main.Pid, rand.Text(), e), kill)
	ended := make(chan struct{})
	go func() {
		g.end(never, kill)
		close(ended)
	}()
	time.Sleep(300 * time.Millisecond) // the search after SIGTERM hangs now
	close(kill)
	select {
	case <-g.exited:
	case <-time.After(slack):
		t.Errorf("the main process lives %v after Kill was closed", slack)
	}
	select {
	case <-ended:
		t.Error("end returned while the search hung: the test shows nothing")
	default:
	}
	for {
		free()
		select {
		case <-ended:
		case <-time.After(10 * time.Millisecond):
			continue
		}
		break
	}
	state, err := g.reap()
	if err != nil || !strings.Contains(state.String(), "killed") {
		t.Errorf("reap() = %v, %v; want signal: killed", state, err)
	}
}
