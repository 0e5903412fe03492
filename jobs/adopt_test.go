//go:build linux

package jobs

import (
	"context"
	"crypto/rand"
	"fmt"
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

// adoptOrphans is a daemon that is PID 1 and has 200 runs that leave orphans. It also starts programs
// itself, whose orphans come to it, and loses its warden on the way. It prints how many runs and
// programs ended in another way than they should, and what is left.
func adoptOrphans() {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("mount /proc:", err)
		return
	}
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var mu sync.Mutex
	var wrong, lost int
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	var hosts sync.WaitGroup
	for host := range 4 {
		hosts.Go(func() {
			for i := range 50 {
				code := (host*50 + i) % 256
				// The first orphan ends before the main process, the others are ended after it, one
				// of them in a session of its own.
				script := fmt.Sprintf("( (true &) & ); ( (sleep 300 &) & ); (setsid sleep 300 &); exit %d", code)
				cmd := command(Shell(script)...)
				cmd.Warden = w
				got := cmd.Run(context.Background(), Run{ID: rand.Text()})
				switch {
				case got.Outcome == Lost:
					count(&lost)
				case got.ExitCode == nil || *got.ExitCode != code:
					count(&wrong)
				}
				own := exec.CommandContext(context.Background(), "/bin/sh", "-c", fmt.Sprintf("(sleep 0.01 &); (setsid sleep 0.01 &); exit %d", code))
				if _ = own.Run(); own.ProcessState == nil || own.ProcessState.ExitCode() != code {
					count(&wrong)
				}
				if host == 0 && i == 25 {
					_ = unix.Kill(w.PID(), unix.SIGKILL)
				}
			}
		})
	}
	hosts.Wait()
	if lost > 4 {
		fmt.Printf("%d runs were lost, want 4 at most: of those under way when the warden was killed\n", lost)
	}
	left := func() (left []string) {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, file := range stats {
			if text, err := os.ReadFile(file); err == nil && file != "/proc/1/stat" {
				left = append(left, strings.TrimSpace(string(text)))
			}
		}
		return left
	}
	// What its own programs left has a moment to end; then there is but the warden.
	for deadline := time.Now().Add(5 * time.Second); len(left()) > 1 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("wrong %d, left %q\n", wrong, left())
}

// Case E09: as PID 1 the daemon and its warden reap what comes to them, and take no status that is
// another's.
func TestWarden_AsPID1(t *testing.T) {
	daemon := play(t, "adopt", "")
	daemon.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 {
		daemon.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		daemon.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		daemon.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	got, err := daemon.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "wrong 0, left []\n"; string(got) != want {
		t.Errorf("after 200 runs with orphans: got %q, want %q", got, want)
	}
}

// A program on a file system that hangs, as execve(2) sees it: whoever opens the file waits until the
// lease on it is given up (fcntl(2), Leases).
func hangingProgram(t *testing.T) (path string, free func()) {
	t.Helper()
	body, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	path = writeFile(t, "hangs", string(body), 0o755)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("lease on %s: %v", path, err)
	}
	return path, func() { f.Close() }
}

// hangingExec is a program that shows this only to the kernel: its interpreter is a script whose interpreter
// is on that file system.
func hangingExec(t *testing.T) (path string, free func()) {
	t.Helper()
	path, free = hangingProgram(t)
	path = writeFile(t, "script", "#!"+path+"\n", 0o755)
	return writeFile(t, "outer", "#!"+path+"\n", 0o755), free
}

// An exec that hangs holds up nothing but starts. The deadlines of others are kept, its own is too, and
// what was to be started after it is not, once its time is over.
func TestWarden_HangingExec(t *testing.T) {
	w := startWarden(t)
	path, free := hangingExec(t)
	defer free()
	in := func(args ...string) Command {
		cmd := command(args...)
		cmd.Warden = w
		return cmd
	}
	var runs sync.WaitGroup
	other, _ := testRun(t)
	other.Deadlines = deadlinesIn(1500*time.Millisecond, 2*time.Second)
	told := ready(&other)
	runs.Go(func() {
		check(t, "a run that is there", in(Shell(deaf)...).Run(t.Context(), other), Lost, 137, words(errUnvouched)+killedToo)
	})
	<-told
	hangs, _ := testRun(t)
	hangs.Deadlines = deadlinesIn(500*time.Millisecond, time.Second)
	queued, _ := testRun(t)
	queued.Deadlines = deadlinesIn(500*time.Millisecond, 600*time.Millisecond)
	began := time.Now()
	runs.Go(func() {
		check(t, "the one that hangs", in(path).Run(t.Context(), hangs), Lost, 137, words(errUnvouched)+killedToo)
		if took := time.Since(began); took < time.Second || took > time.Second+slack {
			t.Errorf("the one that hangs ended after %v, want a second", took)
		}
	})
	eventually(t, "exec hangs", func() bool { return len(forkedBy(t, w.PID())) == 2 })
	runs.Go(func() {
		check(t, "one that waits for its turn", in("true").Run(t.Context(), queued), Lost, -1, words(errTooLate))
	})
	// The warden has much to do meanwhile, and what it throws away has to be collected some time. That
	// must not wait for the exec.
	for busy := time.Now().Add(500 * time.Millisecond); time.Now().Before(busy); {
		other.Deadlines.Move(boottime()+time.Second, boottime()+1500*time.Millisecond)
		time.Sleep(10 * time.Microsecond)
	}
	cancelled, _ := testRun(t)
	check(t, "one that is cancelled", in("true").Run(endsWith(t, ErrCancelled, after(t, now(), 100*time.Millisecond)), cancelled),
		Cancelled, -1, words(ErrCancelled))
	runs.Wait()
	run, _ := testRun(t)
	check(t, "the next", in("true").Run(t.Context(), run), Succeeded, 0, "")
}

// forkedBy are the live children of a process, whatever they are.
func forkedBy(t *testing.T, pid int) (live []int) {
	t.Helper()
	tree := newTree()
	children, err := tree.children(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if stat, err := readStat(child, &tree.buf); err == nil && !stat.dead() {
			live = append(live, child)
		}
	}
	return live
}

// A daemon that is killed while an exec hangs takes that along, too.
func TestWarden_HangingExecIsNoShelter(t *testing.T) {
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, free := hangingExec(t)
	defer free()
	run, _ := testRun(t)
	cmd := command(path)
	cmd.Warden = w
	ended := make(chan Result, 2)
	go func() { ended <- cmd.Run(t.Context(), run) }()
	eventually(t, "exec hangs", func() bool { return len(forkedBy(t, w.PID())) == 1 })
	trace := filepath.Join(t.TempDir(), "trace")
	queued := command(Shell(": >" + trace)...)
	queued.Warden = w
	go func() { ended <- queued.Run(t.Context(), run) }()
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	if err := w.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	for range 2 {
		if got := <-ended; got.Outcome != Lost {
			t.Errorf("a run: %+v, want lost", got)
		}
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("one that waited for its turn got it when the daemon was gone")
	}
	if took := time.Since(began); took > slack {
		t.Errorf("Close took %v", took)
	}
	if children := forkedBy(t, os.Getpid()); len(children) > 2 {
		t.Errorf("live children: %v, want the warden that tests share and no more", children)
	}
}
