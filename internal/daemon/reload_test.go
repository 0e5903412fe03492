package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
)

// atRedis is the config of a daemon that logs in at a server.
func atRedis(stateDir, url, password, opTimeout string) string {
	return fmt.Sprintf(`namespace = "t"
state_dir = %q
[host]
name = "web-1"
[redis]
url = %q
username = "rota"
password = %q
op_timeout = %q
[http]
listen = ""
[jobs.yearly]
schedule = "@yearly"
command = ["/bin/true"]
`, stateDir, url, password, opTimeout)
}

// A server and a password that change together: the password belongs to the new server. The old
// one, which the daemon stays with until its restart, must not be told it, nor miss its own.
func TestRun_ReloadKeepsALoginWithItsServer(t *testing.T) {
	was, next := redistest.Server(t), redistest.Server(t)
	user := func(s *redistest.ServerProc, password string) {
		t.Helper()
		s.Do("ACL", "SETUSER", "rota", "on", "resetpass", ">"+password, "allkeys", "allchannels", "+@all")
	}
	user(was, "one")
	user(next, "two")
	url := func(s *redistest.ServerProc) string { return "redis://" + s.Addr() + "/0" }

	r := newRunning(t)
	write := func(s *redistest.ServerProc, password, opTimeout string) {
		t.Helper()
		r.text(atRedis(filepath.Join(filepath.Dir(r.path), "state"), url(s), password, opTimeout))
	}
	write(was, "one", "1500ms")
	r.start()
	beat := func() any { return was.Do("HGET", "{t}:hosts", "web-1") }
	goesOn := func(when string) {
		t.Helper()
		was.Do("CLIENT", "KILL", "USER", "rota")
		for before, i := beat(), 0; fmt.Sprint(beat()) == fmt.Sprint(before); i++ {
			if i > 1000 {
				t.Fatalf("%s: no heartbeat on a new connection for 10 s; the server refused %v", when, was.Do("ACL", "LOG"))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if refused, _ := was.Do("ACL", "LOG").([]any); len(refused) > 0 {
			t.Errorf("%s: the old server refused %v, want that it is told its own password alone", when, refused)
		}
	}
	goesOn("before")

	const restart = `settings=redis remedy="restart the daemon"`
	write(next, "two", "1500ms")
	for n := range 2 {
		r.reload <- syscall.SIGHUP
		r.await("reload left settings as they were", n+1)
		if got := r.log.count(restart); got != n+1 {
			t.Errorf("reload %d of another server: %d lines with %q, want one each: it is still due", n+1, got, restart)
		}
		goesOn("after a reload of another server")
	}

	// The server it is with: its new password counts at once.
	user(was, "three")
	was.Do("ACL", "LOG", "RESET")
	write(was, "three", "1400ms") // which waits for a restart; the password does not
	r.reload <- syscall.SIGHUP
	r.await("table reloaded", 3)
	goesOn("after a reload of the password")
	r.stop()
}

// A file that somebody writes to is waited for. A daemon that is told to stop meanwhile ends when
// the reload has, and does not say that it is ready when it has said that it stops.
func TestRun_EndsWithTheReloadUnderWay(t *testing.T) {
	s := newSystemd(t)
	r := start(t)
	if m := s.next(false); m["READY"] != "1" {
		t.Fatalf("first message %v, want READY=1", m)
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r.reload <- syscall.SIGHUP
	if m := s.next(false); m["RELOADING"] != "1" {
		t.Fatalf("after SIGHUP message %v, want RELOADING=1", m)
	}
	r.signals <- syscall.SIGTERM
	if m := s.next(false); m["STOPPING"] != "1" {
		t.Errorf("after SIGTERM message %v, want STOPPING=1", m)
	}
	select {
	case err := <-r.done:
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("the daemon does not end after SIGTERM")
	}
	if !r.log.has("reload refused") && !r.log.has("table reloaded") {
		t.Error("Run returned while a reload went on")
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	buf := make([]byte, 4096)
	for range 10 {
		n, err := s.conn.Read(buf)
		if err != nil {
			return
		}
		if m := string(buf[:n]); strings.Contains(m, "READY=1") || strings.Contains(m, "RELOADING=1") {
			t.Errorf("a message after STOPPING=1: %q", m)
		}
	}
}

// A reload that is asked for after the stop has nothing to say either.
func TestNotifier_SaysNothingOfReloadsAfterStopping(t *testing.T) {
	s := newSystemd(t)
	n := &notifier{log: testLogger(&lines{})}
	n.stopping()
	n.reloading()
	n.ready("2 jobs")
	n.send("STATUS=last")
	for _, want := range []string{"STOPPING", "STATUS"} {
		if m := s.next(false); m[want] == "" {
			t.Errorf("message %v, want one with %s", m, want)
		}
	}
}

// newRunning is a daemon that does not run yet.
func newRunning(t *testing.T) *running {
	t.Helper()
	return &running{t: t, path: filepath.Join(t.TempDir(), "rota.toml"), signals: make(chan os.Signal, 2), reload: make(chan os.Signal, 1), done: make(chan error, 1), log: &lines{}}
}
