//go:build linux

package jobs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// standardOf are three files: one that holds input, and two that are empty.
func standardOf(t *testing.T, input string) []*os.File {
	t.Helper()
	files := make([]*os.File, standardFiles)
	for i, name := range []string{"in", "out", "err"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		files[i], input = f, ""
	}
	return files
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What is handed to a program is what it has, with a warden and without.
func TestCommand_HasTheFilesThatItIsHanded(t *testing.T) {
	for name, w := range map[string]*Warden{"here": nil, "in the warden": startWarden(t)} {
		t.Run(name, func(t *testing.T) {
			files := standardOf(t, "ask\n")
			c := Command{Args: Shell("read x; echo $x; echo oops >&2"), Files: files, Warden: w}
			out := NewOutput(100)
			if res := c.Run(t.Context(), Run{Output: out}); res.Outcome != Succeeded {
				t.Fatalf("Run() = %+v", res)
			}
			if got := content(t, files[1]); got != "ask\n" {
				t.Errorf("standard output has %q, want what was in standard input", got)
			}
			if got := content(t, files[2]); got != "oops\n" {
				t.Errorf("standard error has %q", got)
			}
			if out.Total() != 0 {
				t.Errorf("Run.Output got %q too", out.Bytes())
			}
			if _, err := files[1].WriteString("x"); err != nil {
				t.Errorf("the files are the caller's, and closed: %v", err)
			}
		})
	}
}

func TestCommand_TakesThreeFilesOrNone(t *testing.T) {
	res := Command{Args: []string{"true"}, Files: standardOf(t, "")[:2]}.Run(t.Context(), Run{})
	if res.Outcome != Failed || !strings.Contains(res.Reason, "2 files, want 3 or none") {
		t.Errorf("Run() with two files = %+v", res)
	}
}

// A signal that is passed on is the program's to answer: it goes on if it likes.
func TestCommand_PassesSignalsOn(t *testing.T) {
	signals := make(chan os.Signal, 1)
	files := standardOf(t, "")
	c := Command{
		Args:  Shell("trap 'echo got it' INT; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do read x <&3; sleep 1; done 3</dev/null"),
		Files: files, Signals: signals, Warden: startWarden(t),
	}
	ended := make(chan Result, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { ended <- c.Run(ctx, Run{}) }()
	waitForText := func(text string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !strings.Contains(content(t, files[1]), text); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("printed %q, want %q in it", content(t, files[1]), text)
			}
		}
	}
	waitForText("ready")
	signals <- syscall.SIGINT
	waitForText("got it")
	signals <- syscall.SIGKILL
	res := <-ended
	cancel(nil)
	if res.Outcome != Failed || res.ExitCode == nil || *res.ExitCode != 128+9 {
		t.Errorf("Run() = %+v, want what the program died of", res)
	}
}

// Who holds a lease and is no job's run is told of the lease, and of no job.
func TestEnviron_OfNoJob(t *testing.T) {
	got := strings.Join(Environ(Run{Token: 7, Lock: "db", Host: "web-1", Namespace: "rota", Config: "/c"}), " ")
	want := "ROTA_FENCING_TOKEN=7 ROTA_LOCK=db ROTA_HOST=web-1 ROTA_NAMESPACE=rota ROTA_CONFIG=/c ROTA_SOCKET="
	if got != want {
		t.Errorf("Environ() = %s, want %s", got, want)
	}
}
