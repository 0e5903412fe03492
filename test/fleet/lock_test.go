package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
)

// locked is one `rota lock db`, with a fleet's config.
type locked struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
}

// lockWith starts rota lock with these arguments behind the lock's name.
func (f *fleet) lockWith(config string, args ...string) *locked {
	f.t.Helper()
	bin, err := rota()
	if err != nil {
		f.t.Fatal(err)
	}
	l := &locked{t: f.t, cmd: exec.CommandContext(context.Background(), bin, append([]string{"lock", "db", "-c", config}, args...)...), done: make(chan struct{})}
	l.cmd.Stderr = &l.stderr
	l.cmd.WaitDelay = time.Second // what should be dead, and is not, may have it open
	if err := l.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(l.done)
		_ = l.cmd.Wait()
	}()
	f.t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.done
	})
	return l
}

func (l *locked) signal(sig os.Signal) {
	l.t.Helper()
	if err := l.cmd.Process.Signal(sig); err != nil {
		l.t.Fatal(err)
	}
}

// code waits for the end.
func (l *locked) code() int {
	l.t.Helper()
	select {
	case <-l.done:
	case <-time.After(20 * time.Second):
		l.t.Fatalf("rota lock goes on; standard error: %s", l.stderr.String())
	}
	return l.cmd.ProcessState.ExitCode()
}

func (f *fleet) lockConfig(addr string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, "lock.toml")
	text := fmt.Sprintf("namespace = \"fleet\"\n[host]\nname = \"a\"\n[redis]\nurl = \"redis://%s\"\nop_timeout = \"500ms\"\n%s", addr, f.lease)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// deaf is a command that ends by SIGKILL alone, and whose child has left its session. Both write to the
// file as long as they live.
func deaf(path string) []string {
	const loop = `trap "" TERM INT HUP; while :; do echo $0 >> "$1"; sleep 0.02; done`
	return []string{"--", "sh", "-c", `setsid sh -c "$2" child "$1" & exec sh -c "$2" main "$1"`, "sh", path, loop}
}

func awaitWriters(t *testing.T, path string) {
	t.Helper()
	eventually(t, 10*time.Second, func() error {
		b, _ := os.ReadFile(path)
		if !bytes.Contains(b, []byte("child")) || !bytes.Contains(b, []byte("main")) {
			return fmt.Errorf("%q has %q, want both to write", path, b)
		}
		return nil
	})
}

// Whatever becomes of rota lock, nothing of its command lives when the next one has the lock.
func TestFleet_LockCommandIsDeadBeforeTheNextHolder(t *testing.T) {
	t.Parallel() // most of it is waiting
	for name, c := range map[string]struct {
		make func(l *locked, s *redistest.ServerProc)
		code int // of rota lock; -1: it is dead by then
		says string
	}{
		"killed":  {func(l *locked, _ *redistest.ServerProc) { l.signal(syscall.SIGKILL) }, -1, ""},
		"stopped": {func(l *locked, _ *redistest.ServerProc) { l.signal(syscall.SIGSTOP) }, 79, "db: the lease was lost: "},
		"told twice to end": {func(l *locked, _ *redistest.ServerProc) {
			l.signal(syscall.SIGHUP)
			time.Sleep(200 * time.Millisecond)
			l.signal(syscall.SIGTERM)
		}, 128 + 9, ""},
		"asked to end": {func(_ *locked, s *redistest.ServerProc) {
			token, _, _ := strings.Cut(fmt.Sprint(s.Do("GET", "{fleet}:lock:db")), "|")
			s.Do("SET", "{fleet}:lock:db:end", token+" deploy", "PX", "60000")
		}, 79, "rota: db: ended: deploy\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			config := f.lockConfig(s.Addr())
			trace := filepath.Join(f.dir, "trace")
			first := f.lockWith(config, deaf(trace)...)
			awaitWriters(t, trace)
			c.make(first, s)
			// What the second one sees of the first one's file, twice.
			sizes := filepath.Join(f.dir, "sizes")
			second := f.lockWith(config, "--wait", "60s", "--", "sh", "-c", `for i in 1 2; do wc -c < "$0" >> "$1"; sleep 0.5; done`, trace, sizes)
			if code := second.code(); code != 0 {
				t.Fatalf("the second rota lock ended with %d, want 0: %s", code, second.stderr.String())
			}
			b, err := os.ReadFile(sizes)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(string(b)); len(got) != 2 || got[0] != got[1] {
				t.Errorf("under the second lease the first command's file had %s bytes, want no growth", got)
			}
			_ = first.cmd.Process.Signal(syscall.SIGCONT)
			if code := first.code(); code != c.code || !strings.Contains(first.stderr.String(), c.says) {
				t.Errorf("rota lock ended with %d and %q, want %d and %q", code, first.stderr.String(), c.code, c.says)
			}
		})
	}
}

// What a command leaves behind is ended with it, before the lock is released.
func TestFleet_LockIsReleasedWhenAllAreGone(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	pidFile := filepath.Join(f.dir, "pid")
	l := f.lockWith(f.lockConfig(s.Addr()), "--", "sh", "-c",
		`setsid sh -c 'trap "" TERM; echo $$ > "$0"; while :; do sleep 0.05; done' "$0" & while ! test -s "$0"; do sleep 0.02; done; exit 5`, pidFile)
	if code := l.code(); code != 5 {
		t.Errorf("rota lock ended with %d, want the command's 5: %s", code, l.stderr.String())
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("what the command left lives when rota lock has ended (kill(%d) = %v)", pid, err)
	}
	if n := s.Do("EXISTS", "{fleet}:lock:db"); n != int64(0) {
		t.Errorf("the lock is still held")
	}
}

// While Redis is away the lease cannot be renewed: the command is ended in time, and nobody is told anything else.
func TestFleet_LockIsLostWhileRedisIsAway(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	trace := filepath.Join(f.dir, "trace")
	l := f.lockWith(f.lockConfig(s.Addr()), deaf(trace)...)
	awaitWriters(t, trace)
	began := time.Now()
	s.Freeze()
	if code := l.code(); code != 79 || !strings.HasPrefix(l.stderr.String(), "rota: db: the lease was lost: ") {
		t.Errorf("rota lock ended with %d and %q, want 79", code, l.stderr.String())
	}
	// It renews for as long as it may, releases in vain, and then is gone.
	if took := time.Since(began); took < ttl/3 {
		t.Errorf("the command was ended %s after Redis had gone, with a lease of %s", took, ttl)
	}
}
