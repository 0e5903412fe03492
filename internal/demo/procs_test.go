package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sleeper starts a process that lives until the test ends.
func sleeper(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestAwaitGone_SeesWhatIsLeft(t *testing.T) {
	config := filepath.Join(t.TempDir(), "web-2.toml")
	cmd := sleeper(t, []string{"ROTA_CONFIG=" + config}, "sleep", "60")
	other := sleeper(t, []string{"ROTA_CONFIG=" + t.TempDir()}, "sleep", "60")

	r := awaitGone(nil, config, 30*time.Millisecond)
	if len(r.left) != 1 || r.left[0].pid != cmd.Process.Pid || r.took < 30*time.Millisecond {
		t.Fatalf("awaitGone = %+v, want the process %d after 30 ms, and not %d", r, cmd.Process.Pid, other.Process.Pid)
	}
	left := r.left
	left[0].kill()
	// It is a zombie from here on, for nobody has waited for it. That is gone enough.
	if r := awaitGone(left, config, 5*time.Second); len(r.left) > 0 {
		t.Errorf("awaitGone after a kill = %+v, want nothing", r)
	}
	if !(proc{other.Process.Pid, startOf(t, other.Process.Pid)}).lives() {
		t.Error("the other process does not live")
	}
}

func startOf(t *testing.T, pid int) string {
	t.Helper()
	st, ok := stat(pid)
	if !ok {
		t.Fatalf("stat(%d): no such process", pid)
	}
	return st.start
}

// A process is more than its number, which the kernel gives to others later.
func TestProc_IsNotItsPidAlone(t *testing.T) {
	cmd := sleeper(t, nil, "sleep", "60")
	stranger := proc{cmd.Process.Pid, "1"}
	stranger.kill()
	if stranger.lives() || !(proc{cmd.Process.Pid, startOf(t, cmd.Process.Pid)}).lives() {
		t.Error("another process with that pid counts as this one")
	}
}

func TestDescendants_GoesAllTheWayDown(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "(sleep 60; :) & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	// The shell, its child, and the sleep below that.
	var got []proc
	for end := time.Now().Add(5 * time.Second); len(got) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		got = descendants(cmd.Process.Pid)
	}
	if len(got) != 2 {
		t.Errorf("descendants of the shell = %v, want two", got)
	}
	all := descendants(os.Getpid())
	for _, p := range append(got, proc{cmd.Process.Pid, startOf(t, cmd.Process.Pid)}) {
		if !slices.Contains(all, p) {
			t.Errorf("descendants of this process = %v, want %v among them", all, p)
		}
	}
	if got := descendants(1 << 30); len(got) > 0 {
		t.Errorf("descendants of nobody = %v, want none", got)
	}
}

// naming are the processes whose command line or environment names a folder.
func naming(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, file := range []string{"cmdline", "environ"} {
		paths, err := filepath.Glob("/proc/[0-9]*/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir) {
				found = append(found, path)
			}
		}
	}
	return found
}
