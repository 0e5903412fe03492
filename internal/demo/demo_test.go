package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRun starts real daemons, several fleets side by side. Each leaves nothing behind.
func TestRun(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "rota")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "rota/cmd/rota").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	fleet := Options{Exe: exe, Args: []string{"run"}, For: 7 * time.Second, Hosts: 3}

	t.Run("a host is killed and another takes over", func(t *testing.T) {
		t.Parallel()
		v, view, err := runDemo(t, fleet, time.Minute)
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		text := strings.Join(v.Lines(Style{}), "\n")
		if v.Result != Passed || v.Doubles != 0 || v.Unaccounted != 0 || !v.TokensRising {
			t.Errorf("the verdict is\n%s\nwant %s", text, Passed)
		}
		// 7 s have 7 ticks of each job; 6 or 8 if the window's ends fall together with one.
		if v.Due < 12 || v.Due > 16 || v.Runs < v.Due/2 || v.Witnessed < v.Runs {
			t.Errorf("%d ticks due, %d runs, %d witnessed, want about 14, most of them run\n%s", v.Due, v.Runs, v.Witnessed, text)
		}
		if v.Killed == "" || v.Lost != 1 || v.Takeovers != 1 || v.Skipped == 0 || v.Drained != 2 || v.takeover == nil {
			t.Fatalf("killed %q, lost %d, takeovers %d, skipped %d, drained %d, want a host, 1, 1, some, 2\n%s\n%s",
				v.Killed, v.Lost, v.Takeovers, v.Skipped, v.Drained, text, view)
		}
		for _, want := range []string{
			"rota demo", "* won", "left it", "\n---- " + v.Killed + " killed with SIGKILL, in the middle of " + slowJob,
			"lease of " + v.Killed + " still lives", "\n---- takeover: " + v.takeover.host + " runs " + slowJob, "drained on SIGTERM",
		} {
			if !strings.Contains(view, want) {
				t.Errorf("the view lacks %q:\n%s", want, view)
			}
		}
		rows := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d .*$`).FindAllString(view, -1)
		if len(rows) != v.Due {
			t.Errorf("the view has %d rows, want one for each of %d ticks:\n%s", len(rows), v.Due, view)
		}
	})

	t.Run("the first signal ends it early, with a verdict", func(t *testing.T) {
		t.Parallel()
		signals := make(chan os.Signal, 1)
		o := fleet
		o.For, o.Signals = time.Hour, signals
		view := &trigger{at: "* won", do: func() { signals <- syscall.SIGINT }}
		o.View = view
		v, _, err := runDemo(t, o, time.Minute)
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if v.Result != Passed || !v.Early || v.Killed != "" || v.Due == 0 || v.Drained != 3 {
			t.Errorf("result %q, early %t, killed %q, due %d, drained %d, want %q, true, none, some, 3\n%s",
				v.Result, v.Early, v.Killed, v.Due, v.Drained, Passed, &view.text)
		}
	})

	t.Run("the second signal ends it at once", func(t *testing.T) {
		t.Parallel()
		signals := make(chan os.Signal, 2)
		o := fleet
		o.Signals = signals
		view := &trigger{at: "* won", do: func() {
			signals <- syscall.SIGINT
			signals <- syscall.SIGINT
		}}
		o.View = view
		v, _, err := runDemo(t, o, time.Minute)
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if all := strings.Join(v.Faults, "\n"); v.Result != Failed || !strings.Contains(all, "was killed at the second signal") {
			t.Errorf("result %q with faults %q, want %q with hosts that did not drain\n%s", v.Result, all, Failed, &view.text)
		}
	})

	t.Run("a view that nobody reads ends it early", func(t *testing.T) {
		t.Parallel()
		o := fleet
		o.For, o.View = time.Hour, &shortWriter{left: 600}
		v, _, err := runDemo(t, o, time.Minute)
		if err != nil || v.Result != Passed || !v.Early {
			t.Errorf("Run = %+v, %v, want an early verdict that passed", v, err)
		}
	})

	t.Run("a context that ends before the hosts are up", func(t *testing.T) {
		t.Parallel()
		o := fleet
		o.Exe, o.Args = "/bin/sh", []string{"-c", "exec sleep 60"}
		_, _, err := runDemo(t, o, 200*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "ended before all hosts were up") {
			t.Errorf("Run = %v, want that it ended early", err)
		}
	})

	t.Run("a host that ends at its start", func(t *testing.T) {
		t.Parallel()
		o := fleet
		o.Exe, o.Args = "/bin/sh", []string{"-c", "echo 'state_dir: no such folder' >&2; exit 3"}
		_, _, err := runDemo(t, o, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "exited with 3; the end of its log:\nstate_dir: no such folder") {
			t.Errorf("Run = %v, want how it ended, and its log", err)
		}
	})

	t.Run("a host that does not come up", func(t *testing.T) {
		t.Parallel()
		o := fleet
		o.Exe, o.Args = "/bin/sh", []string{"-c", "echo 'waiting for nothing' >&2; exec sleep 60"}
		o.up = time.Second
		_, _, err := runDemo(t, o, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "web-1 did not come up within 1s; the end of its log:\nwaiting for nothing") {
			t.Errorf("Run = %v, want which host, how long, and its log", err)
		}
	})

	t.Run("a program that is not there", func(t *testing.T) {
		t.Parallel()
		o := fleet
		o.Exe = filepath.Join(t.TempDir(), "none")
		if _, _, err := runDemo(t, o, time.Minute); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Run = %v, want %v", err, os.ErrNotExist)
		}
	})
}

// runDemo runs a demo, plain, in a folder of its own, and looks that it left nothing. Its context
// ends after limit.
func runDemo(t *testing.T, o Options, limit time.Duration) (*Verdict, string, error) {
	t.Helper()
	var view strings.Builder
	if o.View == nil {
		o.View = &view
	}
	o.Dir = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	v, err := Run(ctx, o)
	if files, _ := os.ReadDir(o.Dir); len(files) > 0 {
		t.Errorf("Run left %s behind", files[0].Name())
	}
	if left := naming(t, o.Dir); len(left) > 0 {
		t.Errorf("Run left processes behind: %q", left)
	}
	return v, view.String(), err
}

// trigger does something when a text is shown for the first time.
type trigger struct {
	text strings.Builder
	at   string
	do   func()
}

func (w *trigger) Write(p []byte) (int, error) {
	w.text.Write(p)
	if w.do != nil && strings.Contains(w.text.String(), w.at) {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// shortWriter fails once it has taken some bytes, as a pipe does whose reader has gone.
type shortWriter struct{ left int }

func (w *shortWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}
