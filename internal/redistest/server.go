package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

// ServerProc is a redis-server process of one test. Its methods fail the test if they
// cannot do what they say; like those of [testing.T] that fail it, they belong into the
// test's own goroutine. Addr and Port may be used from any.
type ServerProc struct {
	t    testing.TB
	port int
	dir  string
	args []string
	argv func() ([]string, error) // the whole command line but the program, made for each try
	pass string                   // of the default user, by --requirepass

	cmd    *exec.Cmd // nil while it is stopped
	exited chan struct{}
	output *output
}

// Server starts a redis-server that listens on a free port of 127.0.0.1 only, keeps its
// files in a directory of its own and persists nothing. Args are redis-server's, and win
// over these: "--appendonly", "yes", or "--replicaof", "127.0.0.1", other.Port(). It ends
// with the test, and if the test's process dies.
func Server(t testing.TB, args ...string) *ServerProc {
	t.Helper()
	s := newServer(t, args)
	return s.launch()
}

func newServer(t testing.TB, args []string) *ServerProc {
	t.Helper()
	s := &ServerProc{t: t, dir: t.TempDir(), args: args}
	s.argv = s.commandLine
	if i := slices.Index(args, "--requirepass"); i >= 0 && i+1 < len(args) {
		s.pass = args[i+1]
	}
	return s
}

// launch starts it for the first time, on a port that it finds.
func (s *ServerProc) launch() *ServerProc {
	t := s.t
	t.Helper()
	t.Cleanup(s.Kill)
	// Between finding a free port and binding it another process may take it.
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			t.Fatalf("redistest: find a free port: %v", err)
		}
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// Addr returns host:port.
func (s *ServerProc) Addr() string { return address(s.port) }

// Port returns the port, in decimal.
func (s *ServerProc) Port() string { return portText(s.port) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", portText(port)) }

func portText(port int) string { return strconv.Itoa(port) }

// Pid returns the process id of the running server.
func (s *ServerProc) Pid() int {
	s.t.Helper()
	if s.cmd == nil {
		s.t.Fatal("redistest: the server is not running")
	}
	return s.cmd.Process.Pid
}

// Start starts a server that was stopped or killed again, on the same port with the same
// files. What it remembers depends on the persistence that the test asked for.
func (s *ServerProc) Start() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("redistest: the server is running")
	}
	if err := s.start(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Stop ends the server by SIGTERM and waits: it writes what its persistence asks for.
func (s *ServerProc) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server by SIGKILL and waits. A server that is not running is left alone.
func (s *ServerProc) Kill() { s.end(syscall.SIGKILL) }

// Freeze stops the process by SIGSTOP: its connections stay open, the kernel still takes
// what is sent to them, nothing is answered, and no key expires until it is thawed.
func (s *ServerProc) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw continues a frozen server. It then handles what was sent meanwhile.
func (s *ServerProc) Thaw() { s.signal(syscall.SIGCONT) }

// Client returns a new client, closed with the test. Calls end with their context's
// deadline. It repeats commands as go-redis does by default.
func (s *ServerProc) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                     s.Addr(),
		Password:                 s.pass,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do sends one command over a connection of its own, as redis-cli does, and returns the
// answer: nil, string, int64, or a slice. An error of the server fails the test.
func (s *ServerProc) Do(args ...any) any {
	s.t.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	v, err := c.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.t.Fatalf("redistest: %v: %v", args, err)
	}
	return v
}

// Output returns what the server has printed, its log.
func (s *ServerProc) Output() string { return s.output.String() }

func (s *ServerProc) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redistest: redis-server is not installed; run: apt-get install --no-install-recommends redis-server")
	}
	args, err := s.argv()
	if err != nil {
		return err
	}
	s.output = &output{}
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.output, s.output
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	if err := s.awaitReady(); err != nil {
		s.Kill()
		return fmt.Errorf("%w; redis-server said:\n%s", err, s.output)
	}
	return nil
}

func (s *ServerProc) commandLine() ([]string, error) {
	return append([]string{
		"--port", s.Port(), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--loglevel", "notice",
		"--repl-diskless-sync-delay", "0", // a replica need not wait 5 s for others
	}, s.args...), nil
}

// awaitReady waits until this server, and not another one on its port, answers. It speaks
// the protocol itself, because go-redis logs each connection that is refused.
func (s *ServerProc) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		info, err := s.info(ctx)
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid)) {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("redis-server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", errors.Join(ctx.Err(), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *ServerProc) info(ctx context.Context) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	r := bufio.NewReader(conn)
	if s.pass != "" {
		if _, err := conn.Write([]byte("AUTH " + s.pass + "\r\n")); err != nil {
			return "", err
		}
		if _, _, err := readReply(r); err != nil {
			return "", err
		}
	}
	if _, err := conn.Write([]byte("INFO server\r\n")); err != nil {
		return "", err
	}
	reply, _, err := readReply(r)
	return string(reply), err
}

func (s *ServerProc) end(sig syscall.Signal) {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a frozen process takes no SIGTERM
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		s.t.Errorf("redistest: redis-server did not end on %s within %s", sig, stopTimeout)
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	s.cmd = nil
}

func (s *ServerProc) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.Pid(), sig); err != nil {
		s.t.Fatalf("redistest: send %s to redis-server: %v", sig, err)
	}
}

func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, os.ErrInvalid
	}
	return addr.Port, nil
}

// output collects what a process prints while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
