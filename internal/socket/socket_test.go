package socket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/locking"
	"rota/locking/fence"
)

// pathVariable makes the test binary a program that asks at the socket of that path.
const pathVariable = "SOCKET_TEST_PATH"

func TestMain(m *testing.M) {
	if path := os.Getenv(pathVariable); path != "" {
		_, err := Write(context.Background(), path, "by-a-child", 0, []byte("v"))
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// daemon is a server whose only run is this process, or what a test says.
type daemon struct {
	*Server
	redis *redistest.ServerProc

	mu     sync.Mutex
	runOf  func(pid int) string
	tokens map[string]int64
}

func serve(t *testing.T, change func(*Options)) *daemon {
	t.Helper()
	d := &daemon{redis: redistest.Server(t), tokens: map[string]int64{"run-1": 5}}
	d.runOf = func(pid int) string {
		if pid == os.Getpid() {
			return "run-1"
		}
		return ""
	}
	var err error
	if d.Server, err = Listen(filepath.Join(t.TempDir(), "s")); err != nil {
		t.Fatal(err)
	}
	values, err := fence.NewRedis(d.redis.Client(), fence.RedisOptions{Prefix: "{n}:fence:", CallTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		RunOf: func(pid int) string {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.runOf(pid)
		},
		TokenOf: func(run string) (int64, bool) {
			d.mu.Lock()
			defer d.mu.Unlock()
			token, ok := d.tokens[run]
			return token, ok
		},
		Fence: values, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&opt)
	}
	d.Serve(opt)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// set changes what the daemon knows.
func (d *daemon) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *daemon) write(t *testing.T, key string, token int64, value []byte) (fence.Value, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Write(ctx, d.Path(), key, token, value)
}

func TestServer_WritesWithTheRunsToken(t *testing.T) {
	d := serve(t, nil)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, tc := range []struct {
		what  string
		token int64
		value []byte
		want  []byte
	}{
		{"the token alone, of an empty key", 5, nil, nil},
		{"an empty value", 5, []byte{}, []byte{}},
		{"the token alone", 5, nil, []byte{}},
		{"every byte", 5, all, all},
		{"no token: it is the run's", 0, []byte("v"), []byte("v")},
		{"no token and no value", 0, nil, []byte("v")},
		{"the largest value", 5, bytes.Repeat([]byte{0xff}, fence.MaxValueBytes), bytes.Repeat([]byte{0xff}, fence.MaxValueBytes)},
	} {
		v, err := d.write(t, "k", tc.token, tc.value)
		if err != nil || v.Token != 5 || !bytes.Equal(v.Data, tc.want) || (v.Data == nil) != (tc.want == nil) {
			t.Errorf("%s: got token %d, %d bytes, %v; want 5 and %d bytes", tc.what, v.Token, len(v.Data), err, len(tc.want))
		}
	}
	if got := d.redis.Do("HGET", "{n}:fence:k", "token"); got != "5" {
		t.Errorf("redis has token %v, want that of the run", got)
	}
	// Keys take more room in JSON than in Redis.
	if _, err := d.write(t, strings.Repeat("\x01", fence.MaxKeyBytes), 0, make([]byte, fence.MaxValueBytes)); err != nil {
		t.Errorf("the largest request: %v", err)
	}
}

func TestServer_Refusals(t *testing.T) {
	d := serve(t, nil)
	refused := func(what string, want error, text string, err error) {
		t.Helper()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want %v with %q", what, err, want, text)
		}
	}
	_, err := d.write(t, "k", 4, []byte("late"))
	refused("a token below the run's", ErrRefused, "token 4 is not that of run run-1, which is 5", err)
	_, err = d.write(t, "k", 6, []byte("x"))
	refused("a token above the run's", ErrRefused, "token 6 is not that of run run-1", err)
	_, err = d.write(t, "a{b", 5, nil)
	refused("an impossible key", fence.ErrInvalid, "has a brace", err)
	_, err = d.write(t, "k", 5, make([]byte, fence.MaxValueBytes+1))
	refused("an impossible value", fence.ErrInvalid, "1048577 bytes", err)

	d.redis.Do("SET", "{n}:fence:foreign", "x")
	_, err = d.write(t, "foreign", 5, nil)
	refused("a foreign key", fence.ErrConflict, "{n}:fence:foreign holds another type", err)

	d.redis.Do("HSET", "{n}:fence:newer", "token", "7", "value", "seven")
	_, err = d.write(t, "newer", 5, []byte("late"))
	refused("a key that has seen more", fence.ErrStale, "the store has seen 7", err)
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || *stale != (fence.StaleError{Key: "newer", Token: 5, Stored: 7}) {
		t.Errorf("a key that has seen more: got %+v, want both tokens", stale)
	}
	if got := d.redis.Do("HGET", "{n}:fence:newer", "value"); got != "seven" {
		t.Errorf("the value is %v after that, want it unchanged", got)
	}

	d.set(func() { delete(d.tokens, "run-1") })
	_, err = d.write(t, "k", 5, []byte("x"))
	refused("a run whose lease is lost", ErrLost, "run run-1", err)
	d.set(func() { d.runOf = func(int) string { return "" } })
	_, err = d.write(t, "k", 5, []byte("x"))
	refused("a process of no run", ErrRefused, fmt.Sprintf("process %d belongs to no run", os.Getpid()), err)
	if n := d.redis.Do("EXISTS", "{n}:fence:k"); n != int64(0) {
		t.Error("one of those that were refused has written")
	}

	d.set(func() {
		d.runOf, d.tokens["run-1"] = func(int) string { return "run-1" }, 5
	})
	d.redis.Freeze()
	_, err = d.write(t, "k", 5, []byte("x"))
	refused("a redis that hangs", locking.ErrUnavailable, "", err)
	d.redis.Thaw()
}

// Whoever belongs to no run is not listened to: the reply comes before a word was said.
func TestServer_ReadsNothingOfStrangers(t *testing.T) {
	d := serve(t, nil)
	d.set(func() { d.runOf = func(int) string { return "" } })
	if got := d.say(t, ""); got.Error != codeRefused {
		t.Errorf("a stranger who says nothing: got %+v, want to be refused", got)
	}
}

// say sends text over a connection of its own, and returns the reply.
func (d *daemon) say(t *testing.T, text string) (r reply) {
	t.Helper()
	conn := d.dial(t)
	if _, err := conn.Write([]byte(text)); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	if err := readLine(conn, &r); err != nil {
		t.Fatalf("after %.60q: %v, want a reply", text, err)
	}
	return r
}

func (d *daemon) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", d.Path())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestServer_Requests(t *testing.T) {
	d := serve(t, func(o *Options) { o.Patience = 300 * time.Millisecond })
	for _, tc := range []struct{ what, request, code, text string }{
		{"the request of the package comment", `{"v":1,"op":"fence","key":"cursor","token":5,"value":"MTcwMA=="}` + "\n", "", ""},
		{"no object", "hello\n", codeInvalid, "invalid character"},
		{"another type", `{"v":"1"}` + "\n", codeInvalid, "string"},
		{"two objects", `{"v":1,"op":"fence","key":"k"}{"v":1}` + "\n", codeInvalid, "more than one object"},
		{"a field that is not known", `{"v":1,"op":"fence","key":"k","ttl":5}` + "\n", codeInvalid, `unknown field "ttl"`},
		{"another version", `{"v":2,"op":"fence","key":"k"}` + "\n", codeRefused, "knows version 1"},
		{"another operation", `{"v":1,"op":"eval","key":"k"}` + "\n", codeRefused, `not 1 and "eval"`},
		{"a value that is no base64", `{"v":1,"op":"fence","key":"k","value":"*"}` + "\n", codeInvalid, "base64"},
		{"a key that cannot be", `{"v":1,"op":"fence","key":"}"}` + "\n", codeInvalid, "brace"},
		{"no key", `{"v":1,"op":"fence"}` + "\n", codeInvalid, "empty"},
		{"a token that cannot be", `{"v":1,"op":"fence","key":"k","token":1e99}` + "\n", codeInvalid, "token"},
		{"a request without an end", `{"v":1,"op":"fence","key":"k"}`, codeInvalid, "timeout"},
		{"nothing at all", "", codeInvalid, "timeout"},
		{"more than a request can be", strings.Repeat("x", maxLine+1), codeInvalid, "longer than"},
	} {
		if got := d.say(t, tc.request); got.V != version || got.Error != tc.code || !strings.Contains(got.Text, tc.text) {
			t.Errorf("%s: got %+v, want code %q with %q", tc.what, got, tc.code, tc.text)
		}
	}
	if n := d.redis.Do("DBSIZE"); n != int64(1) {
		t.Errorf("there are %v keys, want the one that was written", n)
	}
}

// One run has its share of the connections and no more; whoever asks for more is answered later.
func TestServer_SharesItsConnections(t *testing.T) {
	d := serve(t, nil)
	silent := make([]net.Conn, perRun)
	for i := range silent {
		silent[i] = d.dial(t)
	}
	await(t, "all of them are looked at", func() bool {
		d.Server.mu.Lock()
		defer d.Server.mu.Unlock()
		return d.busy["run-1"] == perRun
	})
	if got := d.say(t, `{"v":1,"op":"fence","key":"k"}`+"\n"); got.Error != codeBusy {
		t.Errorf("one more of the run: got %+v, want code %q", got, codeBusy)
	}
	d.set(func() { d.runOf, d.tokens["run-2"] = func(int) string { return "run-2" }, 7 })
	if _, err := d.write(t, "k", 7, nil); err != nil {
		t.Errorf("another run: %v", err)
	}
	d.set(func() { d.runOf = func(int) string { return "run-1" } })
	done := make(chan error, 1)
	go func() {
		_, err := d.write(t, "of run 1", 5, nil)
		done <- err
	}()
	_ = silent[0].Close()
	if err := <-done; err != nil {
		t.Errorf("a client of the run, when there is room again: %v", err)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// More at once than connections are looked at, or than one run may have: all are answered.
func TestServer_ManyClients(t *testing.T) {
	d := serve(t, nil)
	var wg sync.WaitGroup
	for i := range 4 * maxConnections {
		wg.Go(func() {
			if _, err := d.write(t, fmt.Sprint("k", i), 5, []byte("v")); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// Whose run it is, is asked of the process that connected; and one that has ended meanwhile, whose number may
// be another's by now, is nobody.
func TestServer_AsksWhoConnected(t *testing.T) {
	d := serve(t, nil)
	child := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		out := &bytes.Buffer{}
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), pathVariable+"="+d.Path()), out, out
		return cmd, out
	}
	asked := make(chan int, 1)
	d.set(func() {
		d.runOf = func(pid int) string {
			asked <- pid
			return "run-1"
		}
	})
	cmd, out := child()
	if err := cmd.Run(); err != nil || out.String() != "<nil>\n" || <-asked != cmd.Process.Pid {
		t.Errorf("a child: %v, it printed %q; want it let through, and its pid asked about", err, out)
	}

	cmd, out = child()
	d.redis.Do("DEL", "{n}:fence:by-a-child")
	started, answered := make(chan struct{}), make(chan struct{})
	d.set(func() {
		d.runOf = func(pid int) string {
			defer close(answered)
			<-started
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return "run-1"
		}
	})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	<-answered
	if err := d.Close(); err != nil { // it waits for the connection
		t.Errorf("Close: %v", err)
	}
	if n := d.redis.Do("EXISTS", "{n}:fence:by-a-child"); n != int64(0) {
		t.Errorf("a process that has ended was let through; it printed %q", out)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket || info.Mode().Perm() != 0o666 {
		t.Errorf("%s: %v, %v; want a socket that everybody may connect to", path, info.Mode(), err)
	}
	// What a daemon leaves that was killed.
	s.listener.SetUnlinkOnClose(false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := Write(ctx, path, "k", 0, nil); !errors.Is(err, ErrAway) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Write at a socket without a daemon: got %v, want ErrAway at once", err)
	}
	if s, err = Listen(path); err != nil {
		t.Fatalf("Listen where a stale socket is: %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want it removed", err)
	}
	if _, err := Write(ctx, path, "k", 0, nil); !errors.Is(err, ErrAway) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write without a socket: got %v, want ErrAway at once", err)
	}

	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("Listen where a file is: got %v, want an error", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v; want it untouched", text, err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 120))); err == nil {
		t.Error("Listen at a path that no socket can have: no error")
	}

	var none *Server
	none.Serve(Options{})
	if err := none.Close(); err != nil || none.Path() != "" {
		t.Errorf("a nil Server: path %q, %v", none.Path(), err)
	}
}

// A daemon that is stopped breaks off what it has, and does not wait for who says nothing.
func TestServer_CloseBreaksOff(t *testing.T) {
	d := serve(t, func(o *Options) { o.Patience = time.Hour })
	conn := d.dial(t)
	await(t, "it is looked at", func() bool {
		d.Server.mu.Lock()
		defer d.Server.mu.Unlock()
		return d.busy["run-1"] == 1
	})
	if err := d.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("Read after Close: %d bytes, want the end", n)
	}
}

// An answer that is none is no success.
func TestWrite_Answers(t *testing.T) {
	for _, answer := range []string{"", "\n", "x\n", "{}\n", `{"v":2,"token":5}` + "\n", `{"v":1,"token":5,"more":1}` + "\n", `{"v":1,"token":5}`, strings.Repeat("x", maxLine)} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var r request
			_ = readLine(conn, &r)
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		})
		v, err := Write(t.Context(), path, "k", 5, nil)
		if !errors.Is(err, ErrAway) || v.Token != 0 {
			t.Errorf("Write answered by %.40q: got %+v, %v; want ErrAway", answer, v, err)
		}
		wg.Wait()
		_ = l.Close()
	}
	if line, err := json.Marshal(reply{V: 1, Token: 5}); err != nil || string(line) != `{"v":1,"token":5,"value":null}` {
		t.Errorf("a reply without a value is %s, %v", line, err)
	}
}
