package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rota/internal/config"
	"rota/jobs"
)

func TestMain(m *testing.M) {
	if jobs.IsWarden() {
		os.Exit(jobs.ServeWarden())
	}
	os.Exit(m.Run())
}

// systemd is a fake notify socket (sd_notify(3)): a datagram a message.
type systemd struct {
	t    *testing.T
	conn *net.UnixConn
}

func newSystemd(t *testing.T) *systemd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return &systemd{t, conn}
}

// next returns the next message's assignments. It skips watchdog pings unless they are wanted.
func (s *systemd) next(wantPing bool) map[string]string {
	s.t.Helper()
	buf := make([]byte, 4096)
	for {
		_ = s.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, err := s.conn.Read(buf)
		if err != nil {
			s.t.Fatalf("no message to systemd: %v", err)
		}
		m := map[string]string{}
		for line := range strings.Lines(string(buf[:n])) {
			k, v, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
			m[k] = v
		}
		if m["WATCHDOG"] == "" || wantPing {
			return m
		}
	}
}

// running is a daemon in this process, with an embedded Redis.
type running struct {
	t       *testing.T
	path    string
	signals chan os.Signal // that stop
	reload  chan os.Signal
	done    chan error
	log     *lines
}

const table = `namespace = "t"
state_dir = %q
[redis]
url = "embedded"
[http]
listen = ""
[jobs.minutely]
schedule = "* * * * *"
command = ["/bin/true"]
%s`

func (r *running) write(more string) {
	r.t.Helper()
	r.text(fmt.Sprintf(table, filepath.Join(filepath.Dir(r.path), "state"), more))
}

func (r *running) text(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func start(t *testing.T) *running {
	t.Helper()
	r := newRunning(t)
	r.write("")
	r.start()
	return r
}

func (r *running) start() {
	r.t.Helper()
	cfg, err := config.Load(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() {
		r.done <- Run(r.t.Context(), Options{
			Config: cfg, Version: "test", Stop: r.signals, Reload: r.reload, Logger: testLogger(r.log),
		})
	}()
}

func testLogger(l *lines) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// await waits for the nth line with a text.
func (r *running) await(text string, n int) {
	r.t.Helper()
	for range 1000 {
		if r.log.count(text) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("%d lines with %q after 10 s, want %d", r.log.count(text), text, n)
}

func (r *running) stop() {
	r.t.Helper()
	r.signals <- syscall.SIGTERM
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("Run = %v, want nil after a drain", err)
		}
	case <-time.After(15 * time.Second):
		r.t.Fatal("the daemon does not end after SIGTERM")
	}
}

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

func (l *lines) has(text string) bool { return l.count(text) > 0 }

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func TestRun_TellsSystemd(t *testing.T) {
	s := newSystemd(t)
	r := start(t)
	if m := s.next(false); m["READY"] != "1" || m["STATUS"] != "1 jobs" {
		t.Errorf("first message %v, want READY=1 with the number of jobs", m)
	}

	reload := func(what, wantStatus string) {
		t.Helper()
		before := monotonic(t)
		r.reload <- syscall.SIGHUP
		m := s.next(false)
		usec, err := strconv.ParseInt(m["MONOTONIC_USEC"], 10, 64)
		if m["RELOADING"] != "1" || err != nil || usec < before || usec > monotonic(t) {
			t.Errorf("%s: message %v, want RELOADING=1 with MONOTONIC_USEC between then and now", what, m)
		}
		if m := s.next(false); m["READY"] != "1" || m["STATUS"] != wantStatus {
			t.Errorf("%s: message %v, want READY=1 with %q", what, m, wantStatus)
		}
	}
	r.write("[jobs.second]\nschedule = \"@daily\"\ncommand = [\"/bin/true\"]\n")
	reload("a good file", "2 jobs")
	r.write("[jobs.second]\nschedul = \"@daily\"\ncommand = [\"/bin/true\"]\n")
	reload("a bad file", "2 jobs")
	if !r.log.has("reload refused") || !r.log.has("schedul") {
		t.Error("the log does not say what is wrong with the bad file")
	}

	r.signals <- syscall.SIGTERM
	if m := s.next(false); m["STOPPING"] != "1" {
		t.Errorf("after SIGTERM message %v, want STOPPING=1", m)
	}
	if err := <-r.done; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestRun_PingsTheWatchdog(t *testing.T) {
	s := newSystemd(t)
	t.Setenv("WATCHDOG_USEC", "400000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	r := start(t)
	pings := 0
	for range 4 {
		if s.next(true)["WATCHDOG"] == "1" {
			pings++
		}
	}
	if pings < 3 {
		t.Errorf("%d of 4 messages are pings, want all but READY", pings)
	}
	r.stop()
}

// A loop that stands still is not pinged for.
func TestNotifier_NoPingWithoutProgress(t *testing.T) {
	s := newSystemd(t)
	t.Setenv("WATCHDOG_USEC", "100000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	log := &lines{}
	n := &notifier{log: testLogger(log)}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { n.watchdog(ended, func() time.Time { return time.Now().Add(-time.Second) }) })
	_ = s.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if n, err := s.conn.Read(make([]byte, 100)); err == nil {
		t.Errorf("a message of %d bytes came, want none while the loop stands still", n)
	}
	close(ended)
	wg.Wait()
	if !log.has("scheduler loop stands still") {
		t.Error("nothing in the log says why the watchdog is not pinged")
	}
}

func TestRun_ReloadNamesWhatNeedsARestart(t *testing.T) {
	r := start(t)
	for !r.log.has("daemon started") {
		time.Sleep(10 * time.Millisecond)
	}
	r.write("[shutdown]\ndrain = \"5s\"\n[lease]\nttl = \"1m\"\n")
	r.reload <- syscall.SIGHUP
	for range 500 {
		if r.log.has("table reloaded") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !r.log.has(`settings="lease shutdown"`) {
		t.Error("the log does not name the settings that a reload leaves as they were")
	}
	r.stop()
}

func TestRun_StateFolderIsTheDaemonsAlone(t *testing.T) {
	r := start(t)
	for !r.log.has("daemon started") {
		time.Sleep(10 * time.Millisecond)
	}
	dir := filepath.Join(filepath.Dir(r.path), "state")
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state folder: %v, %v; want mode 0700", info, err)
	}
	if _, err := openState(dir); err == nil || !strings.Contains(err.Error(), "another daemon uses") {
		t.Errorf("openState of a folder in use = %v, want that another daemon uses it", err)
	}
	r.stop()
	st, err := openState(dir)
	if err != nil {
		t.Fatalf("openState after the daemon = %v, want the lock free", err)
	}
	st.close()
}

func TestOpenState_SaysWhichSetting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(filepath.Join(file, "state")); err == nil || !strings.Contains(err.Error(), "set state_dir") {
		t.Errorf("openState under a file = %v, want an error that names state_dir", err)
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	now, err := monotonicUsec()
	if err != nil {
		t.Fatal(err)
	}
	return now
}
