package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rota/internal/config"
	"rota/internal/redistest"
)

// childConfig names the config of the daemon that this test binary becomes when it starts itself.
const childConfig = "ROTA_TEST_DAEMON_CONFIG"

// TestRun_AsAChild is the daemon of the tests below; by itself it does nothing. It is a process
// because go-redis' own logger has held the process' standard error since before any test began.
func TestRun_AsAChild(t *testing.T) {
	path := os.Getenv(childConfig)
	if path == "" {
		return
	}
	cfg, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	if err := Run(t.Context(), Options{Config: cfg, Version: "test", Logger: NewLogger(cfg.Log, os.Stderr), Stop: signals}); err != nil {
		t.Fatal(err)
	}
}

// record is one line of the child's standard error.
type record struct {
	line  string
	valid bool
	level string
	msg   string
	text  string // of go-redis
}

// child is a daemon in a process of its own. Its lines are read by a goroutine that ends with it.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	wg  sync.WaitGroup

	mu      sync.Mutex
	records []record
}

func startChild(t *testing.T, path string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRun_AsAChild$")}
	c.cmd.Env = append(os.Environ(), childConfig+"="+path)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.wg.Go(func() {
		in := bufio.NewScanner(stderr)
		for in.Scan() {
			var v struct{ Level, Msg, Text string }
			err := json.Unmarshal(in.Bytes(), &v)
			c.mu.Lock()
			c.records = append(c.records, record{in.Text(), err == nil, v.Level, v.Msg, v.Text})
			c.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		c.wg.Wait()
		_ = c.cmd.Wait()
	})
	return c
}

// end drains the daemon and waits until it has ended.
func (c *child) end() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	c.wg.Wait()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("the daemon = %v, want exit code 0 after a drain; it said\n%s", err, joined(c.all()))
	}
}

// all returns the records so far.
func (c *child) all() []record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// await waits until a record with that message has come.
func (c *child) await(msg string) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if slices.ContainsFunc(c.all(), func(r record) bool { return r.msg == msg }) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("no record %q; the daemon said\n%s", msg, joined(c.all()))
		}
	}
}

func joined(records []record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.line + "\n")
	}
	return b.String()
}

func count(records []record, msg string) int {
	n := 0
	for _, r := range records {
		if r.msg == msg {
			n++
		}
	}
	return n
}

// A Redis that is away costs a line when it goes and one when it comes back, however often it is
// asked meanwhile: by the scheduler, and by the pools of the client, whose own lines are there for
// who asks for debug.
func TestRun_AwayRedisCostsTwoLines(t *testing.T) {
	server := redistest.Server(t, "--appendonly", "yes") // away, and forgets nothing
	children := map[string]*child{}
	for _, level := range []string{"info", "debug"} {
		dir := t.TempDir()
		text := fmt.Sprintf("namespace = \"t\"\nstate_dir = %q\n[host]\nname = %q\n[redis]\nurl = \"redis://%s/0\"\nop_timeout = \"300ms\"\n"+
			"[http]\nlisten = \"\"\n[log]\nlevel = %q\n", filepath.Join(dir, "state"), level, server.Addr(), level)
		for i := range 5 {
			text += fmt.Sprintf("[jobs.j%d]\nschedule = \"* * * * * *\"\ncommand = [\"/bin/true\"]\n", i)
		}
		path := filepath.Join(dir, "rota.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		children[level] = startChild(t, path)
	}
	for _, c := range children {
		c.await("daemon started")
	}
	time.Sleep(2500 * time.Millisecond) // so that both have been heard, and their clients have connections
	server.Stop()
	for _, c := range children {
		c.await("redis went away")
	}
	time.Sleep(4 * time.Second) // two heartbeats, and 20 ticks
	server.Start()
	for _, c := range children {
		c.await("redis came back")
	}
	time.Sleep(2500 * time.Millisecond) // the pools of a client return one by one, a second apart
	for _, c := range children {
		c.end()
	}

	for level, c := range children {
		all := c.all()
		for _, r := range all {
			if !r.valid {
				t.Errorf("%s: %q on standard error is no record", level, r.line)
			}
			about := r.msg != "daemon started" && strings.Contains(r.line, "redis") || strings.Contains(r.line, "connection refused")
			// A run that ends in that very moment has an outcome that is kept, which is said too.
			if about && r.level != "DEBUG" && r.msg != "redis went away" && r.msg != "redis came back" && r.msg != "outcome kept" {
				t.Errorf("%s: %s; want no such line besides the two", level, r.line)
			}
		}
		for _, msg := range []string{"redis went away", "redis came back"} {
			if n := count(all, msg); n != 1 {
				t.Errorf("%s: %d lines %q, want one; the daemon said\n%s", level, n, msg, joined(all))
			}
		}
		own := slices.ContainsFunc(all, func(r record) bool {
			return r.msg == "redis client" && r.level == "DEBUG" && strings.Contains(r.text, "failed to dial")
		})
		if own != (level == "debug") {
			t.Errorf("%s: the client's own lines are there: %t", level, own)
		}
	}
}
