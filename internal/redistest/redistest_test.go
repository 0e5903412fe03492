package redistest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestServer_KeepsNothingUnlessAsked(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want any
	}{
		{"no persistence", nil, nil},
		{"append-only file", []string{"--appendonly", "yes", "--appendfsync", "always"}, "v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Server(t, c.args...)
			s.Do("SET", "k", "v")
			before := s.Pid()
			s.Stop()
			s.Start()
			if s.Pid() == before {
				t.Errorf("Stop, Start: the process is still %d", before)
			}
			if got := s.Do("GET", "k"); got != c.want {
				t.Errorf("GET after a restart: got %v, want %v", got, c.want)
			}
		})
	}
}

func TestServer_FrozenAnswersAfterThaw(t *testing.T) {
	s := Server(t)
	c := s.Client()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("PING of a frozen server: got an answer")
	}
	s.Thaw()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING after Thaw: %v", err)
	}
}

func TestMonitor_TellsScriptsFromClients(t *testing.T) {
	s := Server(t)
	m := s.Monitor()
	s.Do("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", "k\x00\"", "v\xff")
	if got := m.Count("eval"); got != 1 {
		t.Errorf("Count(eval): got %d, want 1", got)
	}
	if got := m.Count("set"); got != 0 {
		t.Errorf("Count(set): got %d, want 0: a script called it", got)
	}
	for _, c := range m.Commands() {
		if c.Is("set") {
			if !c.Lua || c.Args[1] != "k\x00\"" || c.Args[2] != "v\xff" {
				t.Errorf("Commands: got %+v, want SET of the script with its arguments", c)
			}
			return
		}
	}
	t.Errorf("Commands: got %+v, want a SET", m.Commands())
}

// Every fault of the proxy, over TCP and over a pipe in a bubble.
func TestFaultProxy_Faults(t *testing.T) {
	set := Named("set")
	for _, c := range []struct {
		name    string
		fault   func(*FaultProxy)
		handled bool // the server has seen the first SET
		check   func(t *testing.T, took time.Duration, err error)
	}{
		{"no fault", func(*FaultProxy) {}, true, isNil},
		{"another command", func(p *FaultProxy) { p.DropReplies(1, Named("del")) }, true, isNil},
		{"lost reply", func(p *FaultProxy) { p.DropReplies(1, set) }, true, isClosed},
		{"lost request", func(p *FaultProxy) { p.DropRequests(1, set) }, false, isClosed},
		{"hanging reply", func(p *FaultProxy) { p.HangReplies(1, set) }, true, isTimeout},
		{"refused", func(p *FaultProxy) { p.Reject(1, set, "LOADING wait") }, false, func(t *testing.T, _ time.Duration, err error) {
			if !redis.IsLoadingError(err) {
				t.Errorf("SET: got %v, want LOADING", err)
			}
		}},
		{"late request", func(p *FaultProxy) { p.DelayRequests(1, set, 50*time.Millisecond) }, true, isLate},
		{"late reply", func(p *FaultProxy) { p.DelayReplies(1, set, 50*time.Millisecond) }, true, isLate},
		{"black hole", func(p *FaultProxy) { p.BlackHole() }, false, isTimeout},
		{"cut", func(p *FaultProxy) { p.Cut() }, false, func(t *testing.T, _ time.Duration, err error) {
			if err == nil {
				t.Error("SET: got no error")
			}
		}},
	} {
		run := func(t *testing.T, p *FaultProxy, direct *redis.Client) {
			opt := *p.Client().Options()
			opt.MaxRetries, opt.DialerRetries = -1, 1
			client := redis.NewClient(&opt)
			t.Cleanup(func() { _ = client.Close() })
			if err := client.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			c.fault(p)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := client.Set(ctx, "k", "v", 0).Err()
			c.check(t, time.Since(start), err)
			if got := direct.Exists(t.Context(), "k").Val() == 1; got != c.handled {
				t.Errorf("the server handled SET: got %t, want %t", got, c.handled)
			}
			p.Heal()
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Errorf("SET after Heal: %v", err)
			}
			if got := p.Count(set); got < 1 || got > 2 {
				t.Errorf("Count: got %d, want 1 or 2", got)
			}
		}
		t.Run(c.name+" on TCP", func(t *testing.T) {
			s := Server(t)
			run(t, Proxy(t, s.Addr()), s.Client())
		})
		t.Run(c.name+" in a bubble", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, direct := InBubble(t)
				run(t, PipeProxy(t, m.Dial), direct)
			})
		})
	}
}

func isNil(t *testing.T, _ time.Duration, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("SET: got %v, want no error", err)
	}
}

func isLate(t *testing.T, took time.Duration, err error) {
	t.Helper()
	if err != nil || took < 50*time.Millisecond {
		t.Errorf("SET: got %v after %s, want no error after 50ms", err, took)
	}
}

func isTimeout(t *testing.T, took time.Duration, err error) {
	t.Helper()
	timeout, ok := errors.AsType[net.Error](err)
	if !ok || !timeout.Timeout() || took < 200*time.Millisecond {
		t.Errorf("SET: got %v after %s, want a timeout after 200ms", err, took)
	}
}

func isClosed(t *testing.T, _ time.Duration, err error) {
	t.Helper()
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("SET: got %v, want the end of the connection", err)
	}
}

// A pipe has no buffer: client and server would wait for each other.
func TestInBubble_TakesLongPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := InBubble(t)
		start := time.Now()
		pipe := c.Pipeline()
		for range 2000 {
			pipe.Echo(t.Context(), strings.Repeat("x", 100))
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatalf("Exec: %v", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Exec took %s of the bubble's time, want none", took)
		}
	})
}

func TestInBubble_ExpiresOnTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := InBubble(t)
		if err := c.Set(t.Context(), "k", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Millisecond)
		if !m.Exists("k") {
			t.Error("the key is gone a millisecond early")
		}
		time.Sleep(time.Millisecond)
		if m.Exists("k") {
			t.Error("the key is there after its hour")
		}
	})
}

func TestFaultProxy_CountsAndPassesPubSub(t *testing.T) {
	s := Server(t)
	p := Proxy(t, s.Addr())
	sub := p.Client().Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatalf("Receive: %v", err)
	}
	s.Do("PUBLISH", "news", "hello")
	msg, err := sub.ReceiveMessage(t.Context())
	if err != nil || msg.Payload != "hello" {
		t.Errorf("ReceiveMessage: got %v, %v, want hello", msg, err)
	}
	if got := p.Count(Named("SUBSCRIBE")); got != 1 {
		t.Errorf("Count(SUBSCRIBE): got %d, want 1", got)
	}
}
