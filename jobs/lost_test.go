//go:build linux

package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// journal collects log records.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// What becomes of runs whose warden is killed or stopped: they are lost, every process of them is dead
// when Run returns, somebody is told, and the next run has another warden.
func TestWarden_Lost(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
		why    string
	}{
		{"killed", unix.SIGKILL, time.Second, "it has ended"},
		{"stopped", unix.SIGSTOP, pingEvery + answerPatience + time.Second, "it has not answered for 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log journal
			w, err := StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			first := w.PID()
			var runs sync.WaitGroup
			var began []<-chan struct{}
			lost := make(chan time.Time, 5)
			for range 5 {
				run, _ := testRun(t)
				began = append(began, ready(&run))
				runs.Go(func() {
					cmd := command(Shell(deaf)...)
					cmd.Warden = w
					got := cmd.Run(t.Context(), run)
					lost <- time.Now()
					check(t, "a run", got, Lost, -1, "the warden was lost: "+c.why+"; every process of the run was killed")
					if got.Started.IsZero() {
						t.Error("started is not known, want the time")
					}
					wantNone(t, run.ID)
				})
			}
			for _, b := range began {
				<-b
			}
			// It has said so, too, which may be later than that the program has begun to print.
			eventually(t, "the runs have begun", func() bool {
				w.mu.Lock()
				l := w.link
				w.mu.Unlock()
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, wd := range l.wards {
					select {
					case <-wd.began:
					default:
						return false
					}
				}
				return true
			})
			gone := time.Now()
			if err := unix.Kill(first, c.signal); err != nil {
				t.Fatal(err)
			}
			runs.Wait()
			if took := (<-lost).Sub(gone); took > c.within+slack {
				t.Errorf("the first run ended %v after the warden was %s, want %v", took, c.name, c.within)
			}
			run, _ := testRun(t)
			cmd := command("true")
			cmd.Warden = w
			check(t, "the next run", cmd.Run(t.Context(), run), Succeeded, 0, "")
			if now := w.PID(); now == first || now == 0 {
				t.Errorf("the warden has pid %d, before %d; want another one", now, first)
			}
			if text := log.String(); strings.Count(text, `level=ERROR msg="warden lost"`) != 1 || !strings.Contains(text, c.why) || !strings.Contains(text, "running=5") {
				t.Errorf("the log has\n%s\nwant one error that says %q, of 5 runs", text, c.why)
			}
			if err := unix.Kill(first, 0); !errors.Is(err, unix.ESRCH) {
				t.Errorf("the old warden: %v, want it gone and reaped", err)
			}
		})
	}
}

// A run that was ended for another reason keeps it, also if the warden is lost before it could say so.
func TestWarden_LostUnderAnEnd(t *testing.T) {
	w := startWarden(t)
	run, _ := testRun(t)
	told := ready(&run)
	cmd := command(Shell("trap 'echo again' TERM; echo ready; while :; do sleep 0.05; done")...)
	cmd.Warden = w
	ctx := endsWith(t, ErrTimedOut, told)
	go func() {
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond)
		_ = unix.Kill(w.PID(), unix.SIGKILL)
	}()
	check(t, "timed out", cmd.Run(ctx, run), TimedOut, -1, words(ErrTimedOut))
	wantNone(t, run.ID)
}

func TestWarden_Close(t *testing.T) {
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pid := w.PID()
	run, _ := testRun(t)
	told := ready(&run)
	cmd := command(Shell(deaf)...)
	cmd.Warden = w
	ended := make(chan Result, 1)
	go func() { ended <- cmd.Run(t.Context(), run) }()
	<-told
	for range 2 {
		if err := w.Close(); err != nil {
			t.Errorf("Close() = %v, want nil", err)
		}
	}
	check(t, "a run that was left", <-ended, Lost, -1, "the warden was lost: the warden is closed; every process of the run was killed")
	wantNone(t, run.ID)
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("after Close the warden: %v, want it gone", err)
	}
	check(t, "after Close", cmd.Run(t.Context(), run), Failed, -1, `start "/bin/sh": the warden is closed`)
}

// holdARun is a daemon with runs that do not end by themselves. Their last instant is as far away as
// ROTA_TEST_TTL says; nobody moves it. It prints READY when they are there, its warden, and that instant.
func holdARun() {
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ttl, _ := time.ParseDuration(os.Getenv("ROTA_TEST_TTL"))
	last := boottime() + ttl
	var runs sync.WaitGroup
	for _, script := range []string{"setsid sleep 600", deaf, "(setsid sleep 600 &); sleep 600"} {
		began := make(chan struct{})
		runs.Go(func() {
			cmd := command(Shell("echo $$; " + script)...)
			cmd.Warden = w
			run := Run{ID: os.Getenv("ROTA_TEST_ID"), Output: writerFunc(func(p []byte) (int, error) {
				select {
				case <-began:
				default:
					close(began)
				}
				return len(p), nil
			})}
			if ttl > 0 {
				run.Deadlines = new(Deadlines)
				run.Deadlines.Move(last-ttl/2, last)
			}
			cmd.Run(context.Background(), run)
		})
		<-began
	}
	fmt.Println("READY", w.PID(), int64(last))
	runs.Wait()
	fmt.Println("ENDED")
	_ = w.Close()
}

// A held daemon is one with runs that are there.
type held struct {
	*exec.Cmd
	warden int
	last   time.Duration // the last instant of the runs
	pids   []int         // their processes
}

// hold starts such a daemon. It and its warden are gone when the test ends.
func hold(t *testing.T, ttl time.Duration) (h held) {
	t.Helper()
	run, _ := testRun(t)
	h.Cmd = play(t, "hold", "")
	h.Env = append(h.Env, "ROTA_TEST_ID="+run.ID, "ROTA_TEST_TTL="+ttl.String())
	out, err := h.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Process.Kill()
		_ = h.Wait()
	})
	if _, err := fmt.Fscanf(out, "READY %d %d\n", &h.warden, &h.last); err != nil {
		t.Fatalf("the daemon's first line: %v", err)
	}
	eventually(t, "the runs' processes are there", func() bool { h.pids = carriersOf(t, run.ID); return len(h.pids) >= 6 })
	return h
}

// A daemon that is stopped: its runs are dead by their last instant all the same.
func TestWarden_DaemonStopped(t *testing.T) {
	promptly(t, "the end of the last run", leastMargin, func() time.Duration {
		h := hold(t, time.Second)
		if err := h.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		late := deaths(t, h.pids) - h.last
		// And it learns of it when it goes on.
		if err := h.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if err := h.Wait(); err != nil {
			t.Errorf("the daemon ended with %v, want 0: its runs are over", err)
		}
		return late
	})
}

// Case L16: a daemon that is killed takes its runs along, whole, and its warden.
func TestWarden_DaemonKilled(t *testing.T) {
	promptly(t, "the end of the last run", leastMargin, func() time.Duration {
		h := hold(t, 0)
		killed := boottime()
		if err := h.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		took := deaths(t, h.pids) - killed
		eventually(t, "the warden has ended", func() bool { return ended(h.warden) })
		return took
	})
}

// The daemon's death does not wait for a warden that is stopped, only for it to go on: what dies with
// the warden's thread are the main processes.
func TestWarden_BothKilled(t *testing.T) {
	h := hold(t, 0)
	if err := unix.Kill(h.warden, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Process.Kill(), unix.Kill(h.warden, unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the main processes are dead", func() bool {
		for _, pid := range h.pids {
			session, err := unix.Getsid(pid)
			if group, _ := unix.Getpgid(pid); err == nil && group == pid && session != pid && !ended(pid) {
				return false
			}
		}
		return true
	})
	for _, pid := range h.pids {
		_ = unix.Kill(pid, unix.SIGKILL) // said not to be covered: both at once
	}
}

// ended tells whether a process is gone, or a zombie that PID 1 does not reap.
func ended(pid int) bool {
	stat, err := readStat(pid, new(make([]byte, 4<<10)))
	return err != nil || stat.dead()
}

// What showed no sign of its run outlives the warden that was lost, for nobody knows whose it is; but not the
// daemon.
func TestWarden_CloseEndsStrays(t *testing.T) {
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	run, _ := testRun(t)
	pids := filepath.Join(t.TempDir(), "pids")
	// One has children of its own.
	leaves := "(env -i setsid prlimit --locks=unlimited:unlimited sh -c 'sleep 300 & echo $$ $! >>" + pids + "; wait' & " +
		"until [ -s " + pids + " ]; do sleep 0.01; done); sleep 0.2"
	check(t, "a run that leaves a stray", in(w, Shell(leaves)...).Run(t.Context(), run), Succeeded, 0, "")
	first := w.PID()
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	own := exec.CommandContext(t.Context(), "sleep", "300")
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another warden", func() bool { pid := w.PID(); return pid != 0 && pid != first })
	if err := w.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	for _, pid := range pidsIn(t, pids) {
		if !ended(pid) {
			t.Errorf("process %d lives on after Close", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if ended(own.Process.Pid) {
		t.Error("Close has ended a process that this one started itself")
	}
	_ = own.Process.Kill()
	_ = own.Wait()
}
