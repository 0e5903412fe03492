package locking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestProperty35_ScriptsAreSentAgainWhereTheyAreUnknown(t *testing.T) {
	t.Run("after SCRIPT FLUSH before each step", func(t *testing.T) {
		onBoth(t, func(t *testing.T, c *redis.Client) {
			l := newLocker(t, c, Options{Boottime: stopped})
			flush := func() { do(t, c, "SCRIPT", "FLUSH") }
			flush()
			one, two := mustAcquire(t, l, "one"), mustAcquire(t, l, "two")
			flush()
			if _, err := l.Query(t.Context(), "one"); err != nil {
				t.Errorf("Query: %v", err)
			}
			flush() // renewals go in one pipeline, and each of it gets a NOSCRIPT
			for i, err := range l.renewAll(t.Context(), []Grant{*one.grant, *two.grant}) {
				if err != nil {
					t.Errorf("renewal %d: %v", i, err)
				}
			}
			flush()
			mustRelease(t, one)
			mustRelease(t, two)
		})
	})
	t.Run("on a promoted replica", func(t *testing.T) {
		s := redistest.Server(t)
		replica := redistest.Server(t, "--replicaof", "127.0.0.1", s.Port())
		lease := mustAcquire(t, newLocker(t, s.Client(), Options{}), "report")
		eventually(t, 10*time.Second, "the replica has the lock", func() bool {
			return replica.Do("EXISTS", "rota:lock:{report}") == int64(1)
		})
		replica.Do("REPLICAOF", "NO", "ONE")
		l := newLocker(t, replica.Client(), Options{})
		if errs := l.renewAll(t.Context(), []Grant{*lease.grant}); errs[0] != nil {
			t.Errorf("renewal: %v", errs[0])
		}
	})
	t.Run("whole scripts go only to the calls that need them", func(t *testing.T) {
		s := redistest.Server(t)
		m := s.Monitor()
		script := NewScript("return ARGV[1]")
		c := s.Client()
		calls := make([]Call, 5)
		for i := range calls {
			calls[i] = Call{Keys: []string{"k"}, Args: []any{fmt.Sprint("v", i)}}
		}
		for range 2 {
			for i, r := range script.RunAll(t.Context(), c, calls) {
				if r.Err != nil || r.Value != fmt.Sprint("v", i) {
					t.Errorf("reply %d: got %v, %v, want v%d", i, r.Value, r.Err, i)
				}
			}
		}
		if got, again := m.Count("eval"), m.Count("evalsha"); got != 5 || again != 10 {
			t.Errorf("twice 5 calls: got %d EVAL and %d EVALSHA, want 5 and 10", got, again)
		}
	})
}

func TestScript_EachReplyForItself(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		script := NewScript(`
if ARGV[1] == 'nothing' then return false end
if ARGV[1] == 'conflict' then return redis.error_reply('CONFLICT k holds x') end
if ARGV[1] == 'busy' then return redis.error_reply('TRYAGAIN later') end
if ARGV[1] == 'fault' then return redis.call('NOSUCH') end
return { 'a', ARGV[1] }`)
		var calls []Call
		for _, arg := range []string{"nothing", "conflict", "busy", "fault", "value"} {
			calls = append(calls, Call{Keys: []string{"k"}, Args: []any{arg}})
		}
		r := script.RunAll(t.Context(), c, calls)
		if r[0].Value != nil || r[0].Err != nil {
			t.Errorf("nothing: got %v, %v, want neither", r[0].Value, r[0].Err)
		}
		if !errors.Is(r[1].Err, ErrConflict) || errors.Is(r[1].Err, ErrUnavailable) {
			t.Errorf("conflict: got %v, want ErrConflict", r[1].Err)
		}
		if !errors.Is(r[2].Err, ErrUnavailable) {
			t.Errorf("busy: got %v, want ErrUnavailable", r[2].Err)
		}
		if r[3].Err == nil || errors.Is(r[3].Err, ErrUnavailable) || errors.Is(r[3].Err, ErrConflict) {
			t.Errorf("fault: got %v, want an error that matches nothing", r[3].Err)
		}
		if v, ok := r[4].Value.([]any); !ok || !slices.Equal(v, []any{"a", "value"}) || r[4].Err != nil {
			t.Errorf("value: got %v, %v", r[4].Value, r[4].Err)
		}
		if r := script.RunAll(t.Context(), c, nil); len(r) != 0 {
			t.Errorf("no calls: got %v, want no replies", r)
		}
	})
}

func TestScript_APipelineWithoutAnswerIsAnErrorForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := redistest.InBubble(t)
		p := redistest.PipeProxy(t, m.Dial)
		script := NewScript("return ARGV[1]")
		opt := *p.Client().Options()
		opt.MaxRetries, opt.DialerRetries = -1, 1
		c := redis.NewClient(&opt)
		t.Cleanup(func() { _ = c.Close() })
		calls := make([]Call, 4)
		for i := range calls {
			calls[i] = Call{Keys: []string{"k"}, Args: []any{fmt.Sprint(i)}}
		}
		script.RunAll(t.Context(), c, calls)
		n := 0
		p.DropReplies(1, func(args []string) bool {
			n++
			return n == 3
		})
		for i, r := range script.RunAll(t.Context(), c, calls) {
			// Of those answered before the loss go-redis may keep the answer or not.
			if answered := i < 2 && r.Err == nil && r.Value == fmt.Sprint(i); !answered && !errors.Is(r.Err, ErrUnavailable) {
				t.Errorf("reply %d: got %v, %v, want ErrUnavailable", i, r.Value, r.Err)
			}
		}
	})
}

func TestProperty36_FaultsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		answer    string
		transient bool
	}{
		{"LOADING Redis is loading the dataset in memory", true},
		{"READONLY You can't write against a read only replica.", true},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true},
		{"CLUSTERDOWN The cluster is down", true},
		{"TRYAGAIN Multiple keys request during rehashing of slot", true},
		{"NOREPLICAS Not enough good replicas to write.", true},
		{"MISCONF Redis is configured to save RDB snapshots", true},
		{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", true},
		{"OOM command not allowed when used memory > 'maxmemory'.", true},
		{"ERR max number of clients reached", true},
		{"NOAUTH Authentication required.", false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", false},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", false},
		{"CROSSSLOT Keys in request don't hash to the same slot", false},
		{"ERR unknown command", false},
	} {
		code, _, _ := strings.Cut(c.answer, " ")
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := redistest.InBubble(t)
				p := redistest.PipeProxy(t, m.Dial)
				l := bubbled(t, p.Client(), Options{TTL: time.Second})
				lease := mustAcquire(t, l, "kept")
				p.Reject(1, renewals(l), c.answer) // by itself no loss, whatever it is
				time.Sleep(3 * time.Second)
				if lease.Err() != nil {
					t.Errorf("a renewal was refused: got %v, want a lease that lives", lease.Err())
				}
				p.Reject(-1, Evalsha(l), c.answer)
				sent := p.Count(Evalsha(l))
				_, err := l.TryAcquire(t.Context(), "report")
				if got := errors.Is(err, ErrUnavailable); got != c.transient || err == nil || errors.Is(err, ErrHeld) {
					t.Errorf("TryAcquire: got %v, want an error; ErrUnavailable: got %t, want %t", err, got, c.transient)
				}
				if !strings.Contains(fmt.Sprint(err), code) {
					t.Errorf("TryAcquire: got %v, want the server's answer in it", err)
				}
				// A slot has moved a moment later; whatever else the server answers lasts.
				if got := p.Count(Evalsha(l)) - sent; (got == 1) == (code == "TRYAGAIN") {
					t.Errorf("TryAcquire asked %d times, want once: the server has answered; more often after TRYAGAIN", got)
				}
				p.Heal()
			})
		})
	}
	t.Run("a replica", func(t *testing.T) {
		s := redistest.Server(t)
		replica := redistest.Server(t, "--replicaof", "127.0.0.1", s.Port())
		_, err := newLocker(t, replica.Client(), Options{}).TryAcquire(t.Context(), "report")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("TryAcquire on a replica: got %v, want ErrUnavailable with READONLY", err)
		}
	})
}

func TestProperty37_AFullServerRenewsAndReleases(t *testing.T) {
	s := redistest.Server(t)
	l := newLocker(t, s.Client(), Options{TTL: 500 * time.Millisecond})
	lease := mustAcquire(t, l, "report")
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	_, err := l.TryAcquire(t.Context(), "other")
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("TryAcquire on a full server: got %v, want ErrUnavailable with OOM", err)
	}
	for _, key := range []string{"rota:lock:{other}", "rota:lock:{other}:fence"} {
		if got := s.Do("EXISTS", key); got != int64(0) {
			t.Errorf("EXISTS %s: got %v, want 0", key, got)
		}
	}
	time.Sleep(1200 * time.Millisecond)
	if !lease.Valid() || lease.Err() != nil {
		t.Errorf("after 1.2s on a full server: got valid %t, Err %v, want a lease of 500ms renewed", lease.Valid(), lease.Err())
	}
	mustRelease(t, lease)
	if got := s.Do("EXISTS", "rota:lock:{report}"); got != int64(0) {
		t.Errorf("EXISTS after Release: got %v, want 0", got)
	}
}

func FuzzReplies(f *testing.F) {
	f.Add("1", "17", "", "", byte(2))
	f.Add("0", "17", "3000", "host", byte(4))
	f.Add("1", "9007199254740992", "", "", byte(2))
	f.Add("0", "9007199254740993", "-1", "|", byte(4))
	f.Fuzz(func(t *testing.T, a, b, c, d string, n byte) {
		fields := []any{a, b, c, d, nil, int64(7), []any{a}}[:min(int(n), 7)]
		for _, v := range []any{a, nil, int64(n), fields} {
			r := Reply{Value: v}
			if got, err := readAcquired(r); err == nil && (got.fence <= 0 || got.fence >= maxFence || got.left < 0) {
				t.Errorf("readAcquired(%q): got %+v", v, got)
			}
			if got, _, err := readState(r); err == nil && (got.FencingToken < 0 || got.FencingToken >= maxFence || got.Remaining < 0) {
				t.Errorf("readState(%q): got %+v", v, got)
			}
			if yes, err := readYes(r); err == nil && yes != (v == "1") {
				t.Errorf("readYes(%q): got %t", v, yes)
			}
		}
	})
}
