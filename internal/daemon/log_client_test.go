package daemon

import (
	"bufio"
	"context"
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
	if err := Run(t.Context(), Options{Config: cfg, Version: "test", Logger: NewLogger(cfg.Log, os.Stderr), Signals: signals}); err != nil {
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
	c := &child{t: t, cmd: exec.CommandContext(context.Background(), os.Args[0], "-test.run=^TestRun_AsAChild$")}
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

// all returns the records so far.
func (c *child) all() []record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.records)
}

// await waits until a record with that message has come after the first n.
func (c *child) await(n int, msg string) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if slices.ContainsFunc(c.all()[n:], func(r record) bool { return r.msg == msg }) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("no record %q; the daemon said\n%s", msg, said2(c.all()))
		}
	}
}

func said2(records []record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.line + "\n")
	}
	return b.String()
}

// A Redis that is away costs a line when it goes and one when it comes back, however often it is
// asked meanwhile, by the scheduler and by the pool of the client.
func TestRun_AwayRedisCostsTwoLines(t *testing.T) {
	server := redistest.Server(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "rota.toml")
	text := fmt.Sprintf("namespace = \"t\"\nstate_dir = %q\n[redis]\nurl = \"redis://%s/0\"\nop_timeout = \"300ms\"\n[http]\nlisten = \"\"\n", filepath.Join(dir, "state"), server.Addr())
	for i := range 5 {
		text += fmt.Sprintf("[jobs.j%d]\nschedule = \"* * * * * *\"\ncommand = [\"/bin/true\"]\n", i)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startChild(t, path)
	c.await(0, "run ended")
	server.Stop()
	c.await(0, "redis went away")
	time.Sleep(4 * time.Second) // two heartbeats, and 20 ticks
	server.Start()
	c.await(0, "redis came back")
	c.await(len(c.all()), "run ended")
	fmt.Println(said2(c.all()))
}
