//go:build linux

package idle

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
)

// build makes the binary that is measured, as the Makefile does, and returns its path. It is gone
// with the test.
func build(tb testing.TB) string {
	tb.Helper()
	bin := filepath.Join(tb.TempDir(), "rota")
	cmd := exec.CommandContext(tb.Context(), "go", "build", "-C", "../..", "-trimpath", "-o", bin, "./cmd/rota")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build rota: %v\n%s", err, out)
	}
	return bin
}

// daemon is one `rota run`.
type daemon struct {
	tb      testing.TB
	cmd     *exec.Cmd
	ended   chan struct{}
	log     lines
	started time.Duration // from exec until its table was in force
}

// start runs a daemon with so many jobs, none of them due for months, and waits until it says
// that it has started. It ends with the test.
func start(tb testing.TB, bin string, s *redistest.ServerProc, jobs int) *daemon {
	tb.Helper()
	dir := tb.TempDir()
	path := filepath.Join(dir, "rota.toml")
	if err := os.WriteFile(path, table(dir, s.Addr(), jobs, time.Now()), 0o600); err != nil {
		tb.Fatal(err)
	}
	d := &daemon{tb: tb, cmd: exec.CommandContext(tb.Context(), bin, "run", "-c", path), ended: make(chan struct{})}
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // no GOGC, GODEBUG or GOMEMLIMIT of whoever measures
	d.cmd.Stderr = &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := d.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = d.cmd.Wait()
	}()
	tb.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.ended
		if tb.Failed() {
			tb.Logf("the daemon said:\n%.4000s", d.log.String())
		}
	})
	for !strings.Contains(d.log.String(), "daemon started") {
		select {
		case <-d.ended:
			tb.Fatal("the daemon ended at once")
		case <-time.After(time.Millisecond):
		}
		if d.started = time.Since(began); d.started > 30*time.Second {
			tb.Fatalf("the daemon has not started within %s", d.started)
		}
	}
	return d
}

// table is a config whose jobs are due once a year, half a year from now, a minute apart.
func table(dir, redis string, jobs int, now time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "namespace = \"idle\"\nstate_dir = %q\n[host]\nname = \"web-1\"\n[redis]\nurl = \"redis://%s\"\n[http]\nlisten = \"\"\n[log]\nformat = \"json\"\n",
		filepath.Join(dir, "state"), redis)
	month := now.AddDate(0, 6, 0).Month()
	for i := range jobs {
		fmt.Fprintf(&b, "[jobs.job-%05d]\nschedule = \"%d %d %d %d *\"\ncommand = [\"/usr/local/bin/report\", \"--shard\", \"%d\"]\ntimeout = \"1h\"\n",
			i, i%60, i/60%24, 1+i/1440%28, month, i)
	}
	return b.Bytes()
}

// memory reads the process' resident memory from /proc/PID/status, in MiB: all of it, and the
// part that is no file, which is what a second daemon on the machine would cost.
func (d *daemon) memory() (all, own float64) {
	d.tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.tb.Fatal(err)
	}
	return field(text, "VmRSS") / 1024, field(text, "RssAnon") / 1024
}

// field is the number of a line such as "VmRSS:	   21400 kB" (proc_pid_status(5)).
func field(status []byte, name string) float64 {
	for line := range strings.Lines(string(status)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return n
		}
	}
	return 0
}

// goroutines ends the daemon by SIGQUIT, which makes the runtime print every goroutine's stack
// (package os/signal, Default behavior), and returns how many there were.
func (d *daemon) goroutines() int {
	d.tb.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		d.tb.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(10 * time.Second):
		d.tb.Fatal("the daemon does not end after SIGQUIT")
	}
	return countGoroutines(d.log.String())
}

// countGoroutines counts those of the program and its libraries in what the runtime printed. The
// runtime's own, of the collector and the like, are printed too, with the scheduling stack of a
// thread as goroutine 0.
func countGoroutines(dump string) int {
	n := 0
	for stack := range strings.SplitSeq(dump, "\n\n") {
		if strings.HasPrefix(stack, "goroutine ") && !strings.HasPrefix(stack, "goroutine 0 ") &&
			!strings.Contains(stack, "\ncreated by runtime.") {
			n++
		}
	}
	return n
}

// lines collects what a process prints while others read it.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
