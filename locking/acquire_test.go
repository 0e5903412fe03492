package locking

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestProperty1_OneScriptSetsLockFenceAndExpiry(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{})
	mustRelease(t, mustAcquire(t, l, "report")) // loads the scripts; and Redis knows a fence
	m := s.Monitor()
	mustAcquire(t, l, "report")
	var got []string
	for _, c := range m.Commands() {
		got = append(got, strings.ToLower(c.Args[0]))
		if c.Is("set") && (len(c.Args) < 5 || !strings.EqualFold(c.Args[3], "px")) {
			t.Errorf("got %q, want every SET with an expiry", c.Args)
		}
	}
	if want := "[evalsha mget time set set]"; fmt.Sprint(got) != want {
		t.Errorf("TryAcquire sent %v, want %s", got, want)
	}
}

func TestProperty2_ReplayedAcquireIsOneGrant(t *testing.T) {
	for lost := 1; lost <= 3; lost++ {
		t.Run(fmt.Sprint(lost, " replies lost"), func(t *testing.T) {
			onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
				l := newLocker(t, p.Client(), Options{Boottime: stopped})
				mustRelease(t, mustAcquire(t, l, "warm-up"))
				before := p.Count(Evalsha(l))
				p.DropReplies(lost, Evalsha(l))
				p.DelayRequests(-1, Evalsha(l), 200*time.Millisecond)
				sent := time.Now()
				lease := mustAcquire(t, l, "report")
				if got := p.Count(Evalsha(l)) - before; got != lost+1 {
					t.Errorf("asked %d times, want %d", got, lost+1)
				}
				stored := do(t, direct, "GET", "rota:lock:{report}:fence")
				if stored != strconv.FormatInt(lease.FencingToken(), 10) {
					t.Errorf("fence: got %v stored, want the lease's own, %d: one grant", stored, lease.FencingToken())
				}
				// The first request granted it, the last refreshed it.
				if left := do(t, direct, "PTTL", "rota:lock:{report}").(int64); left < 29_850 {
					t.Errorf("PTTL: got %d ms, want the whole TTL", left)
				}
				if want := sent.Add(lease.grant.trusted()); !lease.Deadline().After(want) {
					t.Errorf("Deadline: got %s, want one after %s, of the last request", lease.Deadline(), want)
				}
			})
		})
	}
}

// Evalsha picks a Locker's acquisitions.
func Evalsha(l *Locker) redistest.Match { return redistest.Evalsha(l.acquire.SHA()) }

func TestProperty3_TokensAreRandomAndNew(t *testing.T) {
	t.Run("none of many is like another", func(t *testing.T) {
		const n = 100_000
		seen := make(map[Token]bool, n)
		for range n {
			token := NewToken()
			if len(token) != 32 || strings.Trim(string(token), "0123456789abcdef") != "" {
				t.Fatalf("NewToken: got %q, want 32 hexadecimal digits", token.Reveal())
			}
			seen[token] = true
		}
		if len(seen) != n {
			t.Errorf("%d tokens: %d differ, want all", n, len(seen))
		}
	})
	t.Run("every acquisition has its own", func(t *testing.T) {
		onBoth(t, func(t *testing.T, c *redis.Client) {
			l := newLocker(t, c, Options{Boottime: stopped})
			seen := map[Token]bool{}
			for range 3 {
				lease := mustAcquire(t, l, "report") // after a release
				mustRelease(t, lease)
				seen[lease.grant.Token] = true
			}
			lost := mustAcquire(t, l, "report")
			do(t, c, "DEL", "rota:lock:{report}")
			seen[lost.grant.Token] = true
			seen[mustAcquire(t, l, "report").grant.Token] = true // after a loss
			if len(seen) != 5 {
				t.Errorf("5 acquisitions: %d tokens, want 5", len(seen))
			}
		})
	})
}

func TestProperty7_AFaultyFenceGrantsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		make []any
	}{
		{"text", []any{"SET", "rota:lock:{report}:fence", "abc"}},
		{"a negative number", []any{"SET", "rota:lock:{report}:fence", "-5"}},
		{"a fraction", []any{"SET", "rota:lock:{report}:fence", "1e15"}},
		{"a list", []any{"RPUSH", "rota:lock:{report}:fence", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *redis.Client) {
				l := newLocker(t, client, Options{Boottime: stopped})
				do(t, client, c.make...)
				_, err := l.TryAcquire(t.Context(), "report")
				if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "rota:lock:{report}:fence") {
					t.Errorf("TryAcquire: got %v, want ErrConflict with the key's name", err)
				}
				if got := do(t, client, "EXISTS", "rota:lock:{report}"); got != int64(0) {
					t.Errorf("EXISTS lock: got %v, want 0", got)
				}
			})
		})
	}
}

func TestProperty8_ValidityRunsFromTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		l := bubbled(t, p.Client(), Options{TTL: 10 * time.Second})
		const margin = 2*time.Millisecond + 100*time.Millisecond
		mustRelease(t, mustAcquire(t, l, "warm-up"))

		p.DelayReplies(1, Evalsha(l), 700*time.Millisecond)
		sent := time.Now()
		lease := mustAcquire(t, l, "slow")
		if took := time.Since(sent); took != 700*time.Millisecond {
			t.Fatalf("TryAcquire took %s, want 700ms", took)
		}
		if got, want := lease.Deadline(), sent.Add(10*time.Second-margin); !got.Equal(want) {
			t.Errorf("Deadline: got send + %s, want send + TTL - margin, %s", got.Sub(sent), want.Sub(sent))
		}
		if got, want := lease.Remaining(), 10*time.Second-margin-700*time.Millisecond; got != want {
			t.Errorf("Remaining: got %s, want %s", got, want)
		}

		// An unanswered attempt before does not count.
		p.DropRequests(1, Evalsha(l))
		sent = time.Now()
		lease = mustAcquire(t, l, "repeated")
		if got, want := lease.Deadline(), sent.Add(replayAfter+10*time.Second-margin); !got.Equal(want) {
			t.Errorf("Deadline after a repetition: got send + %s, want %s", got.Sub(sent), want.Sub(sent))
		}
	})
}

func TestProperty9_AGrantThatComesTooLateIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool // then go-redis does not end the call with its deadline
	}{{"own client", false}, {"shared client without deadlines", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, direct := redistest.InBubble(t)
				p := redistest.PipeProxy(t, m.Dial)
				opt := *p.Client().Options()
				opt.ContextTimeoutEnabled = false
				client := redis.NewClient(&opt)
				t.Cleanup(func() { _ = client.Close() })
				l := bubbled(t, client, Options{TTL: time.Second, ShareClient: c.shared})
				mustRelease(t, mustAcquire(t, l, "warm-up"))

				p.DelayReplies(-1, Evalsha(l), time.Second)
				lease, err := l.TryAcquire(t.Context(), "report")
				if !errors.Is(err, ErrUnavailable) {
					t.Fatalf("TryAcquire: got %v, %v, want ErrUnavailable", lease, err)
				}
				synctest.Wait()
				if got := do(t, direct, "EXISTS", "rota:lock:{report}"); got != int64(0) {
					t.Errorf("EXISTS lock: got %v, want 0: it is given back at once", got)
				}
			})
		})
	}
}

func TestProperty10_AbandonedAcquireIsTakenBack(t *testing.T) {
	ways := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancelled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
		"timed out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 50*time.Millisecond)
		},
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			onBothFaulty(t, func(t *testing.T, p *redistest.FaultProxy, direct *redis.Client) {
				l := newLocker(t, p.Client(), Options{Boottime: stopped})
				mustRelease(t, mustAcquire(t, l, "warm-up"))
				p.DelayRequests(1, Evalsha(l), time.Second)
				ctx, cancel := end(t.Context())
				defer cancel()
				start := time.Now()
				_, err := l.TryAcquire(ctx, "report")
				if took := time.Since(start); took > 500*time.Millisecond {
					t.Errorf("TryAcquire returned after %s, want at once after 50ms", took)
				}
				if !errors.Is(err, ctx.Err()) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHeld) {
					t.Errorf("TryAcquire: got %v, want %v and nothing else", err, ctx.Err())
				}
				eventually(t, 5*time.Second, "the fence shows that the request arrived", func() bool {
					return do(t, direct, "EXISTS", "rota:lock:{report}:fence") == int64(1)
				})
				eventually(t, 300*time.Millisecond, "the lock is gone when the answer comes", func() bool {
					return do(t, direct, "EXISTS", "rota:lock:{report}") == int64(0)
				})
			})
		})
	}
	// The request of a connection that was given up can arrive at any time after.
	stray := func(t *testing.T, use func(t *testing.T, l *Locker)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m, _ := redistest.InBubble(t)
			p := redistest.PipeProxy(t, m.Dial)
			l := bubbled(t, p.Client(), Options{})
			mustRelease(t, mustAcquire(t, l, "warm-up"))
			p.DelayRequests(1, Evalsha(l), 2*time.Second) // CallTimeout is 1.5s
			use(t, l)
			m.Del("rota:lock:{report}:fence")
			time.Sleep(5 * time.Second)
			if !m.Exists("rota:lock:{report}:fence") {
				t.Fatal("the request has not arrived after its time: the test shows nothing")
			}
			if m.Exists("rota:lock:{report}") {
				t.Error("the lock is held 5s later, and nobody holds it")
			}
		})
	}
	t.Run("the request outlives its connection", func(t *testing.T) {
		stray(t, func(t *testing.T, l *Locker) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := l.TryAcquire(ctx, "report"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("TryAcquire: got %v, want the end of its context", err)
			}
		})
	})
	t.Run("and the lease that its repetition got", func(t *testing.T) {
		stray(t, func(t *testing.T, l *Locker) { mustRelease(t, mustAcquire(t, l, "report")) })
	})
}

func TestProperty11_ErrorsTellApart(t *testing.T) {
	all := []error{ErrHeld, ErrConflict, ErrUnavailable, ErrLost, ErrReleased, ErrClosed, ErrInvalidName, ErrInvalidOptions, context.Canceled}
	for _, c := range []struct {
		name string
		want error
		try  func(t *testing.T, l *Locker, p *redistest.FaultProxy, direct *redis.Client) error
	}{
		{"held", ErrHeld, func(t *testing.T, l *Locker, _ *redistest.FaultProxy, _ *redis.Client) error {
			mustAcquire(t, l, "report")
			_, err := l.TryAcquire(t.Context(), "report")
			return err
		}},
		{"no answer", ErrUnavailable, func(t *testing.T, l *Locker, p *redistest.FaultProxy, _ *redis.Client) error {
			p.BlackHole()
			_, err := l.TryAcquire(t.Context(), "report")
			p.Heal()
			return err
		}},
		{"no connection", ErrUnavailable, func(t *testing.T, l *Locker, p *redistest.FaultProxy, _ *redis.Client) error {
			p.Cut()
			_, err := l.TryAcquire(t.Context(), "report")
			p.Heal()
			return err
		}},
		{"something else at the key", ErrConflict, func(t *testing.T, l *Locker, _ *redistest.FaultProxy, direct *redis.Client) error {
			do(t, direct, "SET", "rota:lock:{report}", "v")
			_, err := l.TryAcquire(t.Context(), "report")
			return err
		}},
		{"ended context", context.Canceled, func(t *testing.T, l *Locker, _ *redistest.FaultProxy, _ *redis.Client) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errors.New("enough"))
			_, err := l.TryAcquire(ctx, "report")
			if !errors.Is(err, context.Cause(ctx)) {
				t.Errorf("TryAcquire: got %v, want the context's cause in it", err)
			}
			return err
		}},
		{"bad name", ErrInvalidName, func(t *testing.T, l *Locker, _ *redistest.FaultProxy, _ *redis.Client) error {
			_, err := l.TryAcquire(t.Context(), "a{b")
			return err
		}},
		{"closed", ErrClosed, func(t *testing.T, l *Locker, _ *redistest.FaultProxy, _ *redis.Client) error {
			if err := l.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			_, err := l.TryAcquire(t.Context(), "report")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, direct := redistest.InBubble(t)
				p := redistest.PipeProxy(t, m.Dial)
				l := bubbled(t, p.Client(), Options{})
				err := c.try(t, l, p, direct)
				for _, sentinel := range all {
					if got, want := errors.Is(err, sentinel), sentinel == c.want; got != want { //nolint:errorlint // which of them
						t.Errorf("got %v; errors.Is(err, %v): got %t, want %t", err, sentinel, got, want)
					}
				}
			})
		})
	}
}

func TestHeldError_SaysWho(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		one := newLocker(t, c, Options{Holder: "host-1|a b", Boottime: stopped})
		two := newLocker(t, c, Options{Holder: "host-2", Boottime: stopped})
		lease := mustAcquire(t, one, "report")
		_, err := two.TryAcquire(t.Context(), "report")
		held, ok := errors.AsType[*HeldError](err)
		if !ok {
			t.Fatalf("TryAcquire: got %v, want a HeldError", err)
		}
		if held.Name != "report" || held.Holder != "host-1|a b" || held.FencingToken != lease.FencingToken() {
			t.Errorf("HeldError: got %+v, want holder %q and token %d", held, "host-1|a b", lease.FencingToken())
		}
		if held.Remaining < 29*time.Second || held.Remaining > 30*time.Second {
			t.Errorf("HeldError.Remaining: got %s, want about 30s", held.Remaining)
		}
	})
}

func TestProperty13_ForeignValueIsConflict(t *testing.T) {
	const key = "rota:lock:{report}"
	for _, c := range []struct {
		name string
		make []any
	}{
		{"a string without expiry", []any{"SET", key, "someone"}},
		{"a string with expiry", []any{"SET", key, "someone", "PX", "60000"}},
		{"another library's token", []any{"SET", key, "b5a2c7d0-5c1f-4a57-9d2b-000000000000", "PX", "60000"}},
		{"an empty string", []any{"SET", key, "", "PX", "60000"}},
		{"a lease without expiry", []any{"SET", key, "00ff|17|30000|host-1"}},
		{"a list", []any{"LPUSH", key, "v"}},
		{"a hash", []any{"HSET", key, "f", "v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, client *redis.Client) {
				l := newLocker(t, client, Options{Boottime: stopped})
				do(t, client, c.make...)
				before := fmt.Sprint(do(t, client, "TYPE", key), do(t, client, "TTL", key))
				if _, err := l.TryAcquire(t.Context(), "report"); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), key) {
					t.Errorf("TryAcquire: got %v, want ErrConflict with the key's name", err)
				}
				if _, err := l.Query(t.Context(), "report"); !errors.Is(err, ErrConflict) {
					t.Errorf("Query: got %v, want ErrConflict", err)
				}
				if after := fmt.Sprint(do(t, client, "TYPE", key), do(t, client, "TTL", key)); after != before {
					t.Errorf("the key: got %s, want it untouched, %s", after, before)
				}
				if n := do(t, client, "DBSIZE"); n != int64(1) {
					t.Errorf("%v keys are there, want nothing besides the one", n)
				}
				do(t, client, "SET", key+":fence", "17", "PX", "60000")
				if _, err := l.TryAcquire(t.Context(), "report"); !errors.Is(err, ErrConflict) {
					t.Errorf("TryAcquire: got %v, want ErrConflict", err)
				}
				if v := do(t, client, "GET", key+":fence"); v != "17" {
					t.Errorf("the fence: got %v, want it as it was, 17", v)
				}
			})
		})
	}
}

// A Redis clock that steps back must not prolong the lease of a holder that died.
func TestTryAcquire_StepOfRedisClockDoesNotProlong(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{TTL: time.Second, Boottime: stopped})
		lease := mustAcquire(t, l, "report")
		lease.Stop() // its holder dies
		do(t, c, "PEXPIRE", "rota:lock:{report}", "3600000")
		_, err := l.TryAcquire(t.Context(), "report")
		held, ok := errors.AsType[*HeldError](err)
		if !ok || held.Remaining > time.Second {
			t.Errorf("TryAcquire: got %v, want held for at most 1s", err)
		}
		if left := do(t, c, "PTTL", "rota:lock:{report}").(int64); left > 1000 {
			t.Errorf("PTTL: got %d ms, want at most 1000", left)
		}
	})
}
