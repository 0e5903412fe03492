package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

func TestRedis_TokensDecide(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r, ctx := newRedis(t, c), t.Context()
		want := func(token int64, data []byte) {
			t.Helper()
			v, err := r.Read(ctx, "k")
			if err != nil || v.Token != token || !bytes.Equal(v.Data, data) || (v.Data == nil) != (data == nil) {
				t.Errorf("Read: got token %d and %q, %v; want %d and %q", v.Token, v.Data, err, token, data)
			}
		}
		want(0, nil)
		ok(t, "the first write", r.Write(ctx, "k", 5, []byte("five")))
		want(5, []byte("five"))
		ok(t, "the same again", r.Write(ctx, "k", 5, []byte("five")))
		ok(t, "another value of the same holder", r.Write(ctx, "k", 5, []byte("5 again")))
		want(5, []byte("5 again"))
		refused(t, r.Write(ctx, "k", 4, []byte("late")), 4, 5)
		want(5, []byte("5 again"))
		ok(t, "a higher token", r.Write(ctx, "k", 7, nil))
		want(7, []byte{})
		refused(t, r.Write(ctx, "k", 6, []byte("late")), 6, 7)

		v, err := r.Raise(ctx, "k", 9)
		ok(t, "Raise", err)
		if v.Token != 9 || v.Data == nil || len(v.Data) != 0 {
			t.Errorf("Raise to 9: got %+v, want token 9 and the empty value that was there", v)
		}
		refused(t, r.Write(ctx, "k", 8, []byte("late")), 8, 9)
		_, err = r.Raise(ctx, "k", 8)
		refused(t, err, 8, 9)
		v, err = r.Raise(ctx, "k", 9)
		ok(t, "Raise again", err)
		if v.Token != 9 {
			t.Errorf("Raise again: got token %d, want 9", v.Token)
		}
		ok(t, "a key beside it", r.Write(ctx, "k2", 1, []byte("one")))
	})
}

// A token that was raised before anything was written is one, and the value is told from an empty one.
func TestRedis_RaiseOfAnEmptyKey(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r := newRedis(t, c)
		v, err := r.Raise(t.Context(), "k", 3)
		if err != nil || v.Token != 3 || v.Data != nil {
			t.Errorf("Raise: got %+v, %v; want token 3 and no value", v, err)
		}
		refused(t, r.Write(t.Context(), "k", 2, nil), 2, 3)
		if v, err := r.Read(t.Context(), "k"); err != nil || v.Token != 3 || v.Data != nil {
			t.Errorf("Read: got %+v, %v; want token 3 and no value", v, err)
		}
	})
}

// What the design says of the key: a hash of token and value, without expiry.
func TestRedis_KeyIsAHashWithoutExpiry(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r := newRedis(t, c)
		ok(t, "Write", r.Write(t.Context(), "a:b", 41, []byte("v")))
		got := c.HGetAll(t.Context(), "{app}:fence:a:b").Val()
		if len(got) != 2 || got["token"] != "41" || got["value"] != "v" {
			t.Errorf("the key holds %q, want token and value alone", got)
		}
		do(t, c, "HSET", "{app}:fence:a:b", "note", "kept")
		do(t, c, "PEXPIRE", "{app}:fence:a:b", "60000") // somebody who meant another key
		ok(t, "Write", r.Write(t.Context(), "a:b", 41, []byte("w")))
		if ttl := do(t, c, "PTTL", "{app}:fence:a:b"); ttl != int64(-1) {
			t.Errorf("PTTL after a write = %v, want -1: a token that expires lets the past in", ttl)
		}
		if note := c.HGet(t.Context(), "{app}:fence:a:b", "note").Val(); note != "kept" {
			t.Errorf("another field of the hash is %q after a write, want it kept", note)
		}
	})
}

// Two holders' tokens next to 2^53 differ in the last digit, which a Lua number has and tostring loses.
func TestRedis_TokensAreExact(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r := newRedis(t, c)
		ok(t, "Write", r.Write(t.Context(), "k", MaxToken-1, nil))
		refused(t, r.Write(t.Context(), "k", MaxToken-2, nil), MaxToken-2, MaxToken-1)
		ok(t, "Write", r.Write(t.Context(), "k", MaxToken, nil))
		refused(t, r.Write(t.Context(), "k", MaxToken-1, nil), MaxToken-1, MaxToken)
		if got := c.HGet(t.Context(), "{app}:fence:k", "token").Val(); got != "9007199254740991" {
			t.Errorf("the key holds token %s, want 9007199254740991", got)
		}
		ok(t, "Write", r.Write(t.Context(), "short", 9, nil))
		ok(t, "10 is above 9, as a number", r.Write(t.Context(), "short", 10, nil))
	})
}

// Whatever somebody else keeps at a key is an error that names it, and stays as it is.
func TestRedis_ForeignKeysAreNeverOverwritten(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r := newRedis(t, c)
		for name, put := range map[string][]any{
			"a string":              {"SET", "{app}:fence:k", "5"},
			"a list":                {"RPUSH", "{app}:fence:k", "5"},
			"a set":                 {"SADD", "{app}:fence:k", "5"},
			"a hash without token":  {"HSET", "{app}:fence:k", "value", "v"},
			"an empty token":        {"HSET", "{app}:fence:k", "token", "", "value", "v"},
			"a token of letters":    {"HSET", "{app}:fence:k", "token", "abc", "value", "v"},
			"a negative token":      {"HSET", "{app}:fence:k", "token", "-5", "value", "v"},
			"a token of 0":          {"HSET", "{app}:fence:k", "token", "0", "value", "v"},
			"a hexadecimal token":   {"HSET", "{app}:fence:k", "token", "0x10", "value", "v"},
			"a fraction":            {"HSET", "{app}:fence:k", "token", "5.5", "value", "v"},
			"an exponent":           {"HSET", "{app}:fence:k", "token", "1e3", "value", "v"},
			"a token of 2^53":       {"HSET", "{app}:fence:k", "token", "9007199254740992", "value", "v"},
			"a token of 400 digits": {"HSET", "{app}:fence:k", "token", strings.Repeat("9", 400), "value", "v"},
		} {
			t.Run(name, func(t *testing.T) {
				do(t, c, "DEL", "{app}:fence:k")
				do(t, c, put...)
				before := contents(t, c)
				_, raised := r.Raise(t.Context(), "k", 7)
				_, read := r.Read(t.Context(), "k")
				for call, err := range map[string]error{"Write": r.Write(t.Context(), "k", 7, nil), "Raise": raised, "Read": read} {
					if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "{app}:fence:k") {
						t.Errorf("%s: got %v, want ErrConflict that names the key", call, err)
					}
				}
				if after := contents(t, c); after != before {
					t.Errorf("the key held %q before and %q after, want it unchanged", before, after)
				}
			})
		}
	})
}

// contents is what stands at the one key, of whatever type.
func contents(t *testing.T, c *redis.Client) string {
	t.Helper()
	const key = "{app}:fence:k"
	read := map[any][]any{
		"string": {"GET", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key}, "hash": {"HGETALL", key},
	}
	return fmt.Sprint(do(t, c, read[do(t, c, "TYPE", key)]...))
}

func TestRedis_RefusesBeforeAnyIO(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1}) // nothing listens
	t.Cleanup(func() { _ = client.Close() })
	r := newRedis(t, client)
	for _, tc := range []struct {
		key   string
		token int64
		want  string
	}{
		{"", 1, "key: empty"},
		{"a{b", 1, `"a{b" has a brace`},
		{"}", 1, `"}" has a brace`},
		{"{}", 1, `"{}" has a brace`},
		{"a\x00b", 1, `"a\x00b" has a NUL byte`},
		{"a\xffb", 1, `"a\xffb" is not valid UTF-8`},
		{strings.Repeat("x", 10<<10), 1, "has 10240 bytes, at most 512 are allowed"},
		{strings.Repeat("ü", 257), 1, "has 514 bytes, at most 512 are allowed"},
		{"k", 0, "token: 0 is not between"},
		{"k", -1, "token: -1 is not between"},
		{"k", 1 << 53, "token: 9007199254740992 is not between"},
	} {
		_, raised := r.Raise(t.Context(), tc.key, tc.token)
		for call, err := range map[string]error{"Write": r.Write(t.Context(), tc.key, tc.token, nil), "Raise": raised} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s(%.20q, %d): got %v, want ErrInvalid with %q", call, tc.key, tc.token, err, tc.want)
			}
		}
		if strings.HasPrefix(tc.want, "token") {
			continue
		}
		if _, err := r.Read(t.Context(), tc.key); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Read(%.20q): got %v, want ErrInvalid with %q", tc.key, err, tc.want)
		}
	}
	err := r.Write(t.Context(), "k", 1, make([]byte, MaxValueBytes+1))
	if want := "value: 1048577 bytes, at most 1048576 are allowed"; !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("Write of %d bytes: got %v, want ErrInvalid with %q", MaxValueBytes+1, err, want)
	}
	if err := r.Write(t.Context(), "k", 1, nil); !errors.Is(err, locking.ErrUnavailable) || locking.MayHaveRun(err) {
		t.Errorf("Write that is asked for: got %v, want ErrUnavailable of a server that was not reached", err)
	}
}

// Every byte but those that CheckKey names, in keys and in values.
func TestRedis_OddKeysAndValues(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		r := newRedis(t, c)
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		for i, key := range []string{"a\r\n$3", "'); redis.call('FLUSHALL') --", "日本 ü", "a:b", strings.Repeat("x", MaxKeyBytes)} {
			ok(t, fmt.Sprintf("Write(%.20q)", key), r.Write(t.Context(), key, int64(i+1), all))
			if v, err := r.Read(t.Context(), key); err != nil || !bytes.Equal(v.Data, all) || v.Token != int64(i+1) {
				t.Errorf("Read(%.20q): got token %d and %d bytes, %v; want %d and what was written", key, v.Token, len(v.Data), err, i+1)
			}
		}
		if n := do(t, c, "DBSIZE"); n != int64(5) {
			t.Errorf("there are %v keys, want one for each of 5", n)
		}
		ok(t, "Write of the largest value", r.Write(t.Context(), "big", 1, make([]byte, MaxValueBytes)))
	})
}

// A reply that is lost leaves it open whether the write happened; the caller repeats it. The client, by
// its options, would too: it does not, so that nobody but the caller knows how often.
func TestRedis_RepeatAfterALostReply(t *testing.T) {
	s := redistest.Server(t)
	p := redistest.Proxy(t, s.Addr())
	r := newRedis(t, p.Client())
	p.DropReplies(1, redistest.Named("EVAL"))
	err := r.Write(t.Context(), "k", 5, []byte("v"))
	if !errors.Is(err, locking.ErrUnavailable) || !locking.MayHaveRun(err) || errors.Is(err, ErrStale) {
		t.Fatalf("Write without a reply: got %v, want ErrUnavailable that may have run", err)
	}
	p.Heal()
	ok(t, "the repetition", r.Write(t.Context(), "k", 5, []byte("v")))
	if v, err := r.Read(t.Context(), "k"); err != nil || v.Token != 5 || string(v.Data) != "v" {
		t.Errorf("Read: got %+v, %v; want token 5 and the value", v, err)
	}
	sent := p.Count(redistest.Evalsha(r.write.SHA()))
	p.DropReplies(1, redistest.Evalsha(r.write.SHA()))
	if err := r.Write(t.Context(), "k", 6, []byte("w")); !errors.Is(err, locking.ErrUnavailable) {
		t.Errorf("Write without a reply: got %v, want ErrUnavailable", err)
	}
	if n := p.Count(redistest.Evalsha(r.write.SHA())) - sent; n != 1 {
		t.Errorf("one Write was sent %d times, want once", n)
	}
	ok(t, "the repetition", r.Write(t.Context(), "k", 6, []byte("w")))
}

func TestRedis_ServerStates(t *testing.T) {
	t.Run("a hung server is waited for CallTimeout", func(t *testing.T) {
		s := redistest.Server(t)
		r, err := NewRedis(s.Client(), RedisOptions{CallTimeout: 100 * time.Millisecond})
		ok(t, "NewRedis", err)
		s.Freeze()
		defer s.Thaw()
		began := time.Now()
		if err := r.Write(t.Context(), "k", 1, nil); !errors.Is(err, locking.ErrUnavailable) || time.Since(began) > 5*time.Second {
			t.Errorf("Write on a frozen server: got %v after %s, want ErrUnavailable after 100 ms", err, time.Since(began))
		}
	})
	t.Run("an end of ctx is the caller's", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := newRedis(t, redistest.Server(t).Client()).Write(ctx, "k", 1, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Write with an ended context: got %v, want context.Canceled", err)
		}
	})
	t.Run("a full server refuses, and nothing has changed", func(t *testing.T) {
		s := redistest.Server(t)
		r := newRedis(t, s.Client())
		ok(t, "Write", r.Write(t.Context(), "k", 1, []byte("v")))
		s.Do("CONFIG", "SET", "maxmemory", "1")
		_, raised := r.Raise(t.Context(), "k", 2)
		for call, err := range map[string]error{"Write": r.Write(t.Context(), "k", 2, []byte("w")), "Raise": raised} {
			if !errors.Is(err, locking.ErrUnavailable) {
				t.Errorf("%s on a full server: got %v, want ErrUnavailable", call, err)
			}
		}
		if v, err := r.Read(t.Context(), "k"); err != nil || v.Token != 1 || string(v.Data) != "v" {
			t.Errorf("Read on a full server: got %+v, %v; want what was there", v, err)
		}
	})
	t.Run("an emptied script cache", func(t *testing.T) {
		s := redistest.Server(t)
		r := newRedis(t, s.Client())
		for range 2 {
			s.Do("SCRIPT", "FLUSH")
			ok(t, "Write", r.Write(t.Context(), "k", 1, nil))
		}
	})
	t.Run("an ACL user with what docs/operations.md gives it", func(t *testing.T) {
		s := redistest.Server(t)
		s.Do("ACL", "SETUSER", "rota", "on", ">pw", "resetkeys", "~{app}:*", "-@all", "+@connection", "+@scripting", "+@read", "+@write", "+@stream", "+@pubsub", "+time")
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "rota", Password: "pw"})
		t.Cleanup(func() { _ = c.Close() })
		r := newRedis(t, c)
		ok(t, "Write", r.Write(t.Context(), "k", 1, nil))
		if _, err := r.Read(t.Context(), "k"); err != nil {
			t.Errorf("Read: %v", err)
		}
		other, err := NewRedis(c, RedisOptions{Prefix: "{other}:fence:"})
		ok(t, "NewRedis", err)
		if err := other.Write(t.Context(), "k", 1, nil); err == nil || errors.Is(err, locking.ErrUnavailable) || errors.Is(err, ErrConflict) {
			t.Errorf("Write to a key that the user has no right to: got %v, want Redis' own refusal", err)
		}
	})
}

// Many holders at once, in any order: what a key holds was written under the highest token that got
// through, and no write under a smaller one came after it.
func TestRedis_ManyHolders(t *testing.T) {
	s := redistest.Server(t)
	r, c := newRedis(t, s.Client()), s.Client()
	const writers, writes = 8, 150
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			var seen int64 // the highest that this one has been told of
			for range writes {
				token := rand.Int64N(1000) + 1
				err := r.Write(t.Context(), "k", token, fmt.Append(nil, token))
				stale, isStale := errors.AsType[*StaleError](err)
				switch {
				case err == nil && token < seen, isStale && stale.Stored <= token:
					t.Errorf("a write with token %d after %d was seen: got %v", token, seen, err)
				case err == nil:
					seen = max(seen, token)
				case isStale:
					seen = max(seen, stale.Stored)
				default:
					t.Errorf("Write: %v", err)
				}
			}
		})
	}
	wg.Wait()
	got := c.HGetAll(t.Context(), "{app}:fence:k").Val()
	if got["token"] != got["value"] {
		t.Errorf("the key holds the value of token %s under token %s, want one of both", got["value"], got["token"])
	}
}

func TestNewRedis_SaysAllThatIsWrong(t *testing.T) {
	for _, prefix := range []string{"{", "}", "{}", "a}b{", "{a}{b}", "{{a}}"} {
		_, err := NewRedis(nil, RedisOptions{Prefix: prefix, CallTimeout: -1})
		if !errors.Is(err, ErrInvalid) || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("NewRedis(nil, %q, -1): got %v, want three faults", prefix, err)
		}
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	if _, err := NewRedis(ring, RedisOptions{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("NewRedis with a redis.Ring: got %v, want ErrInvalid", err)
	}
}

// A server that answers something else is not believed.
func TestReadReply_Shapes(t *testing.T) {
	for _, reply := range []any{
		nil, "OK", int64(1),
		[]any{},
		[]any{"1"},
		[]any{"1", int64(5)},
		[]any{"2", "5"},
		[]any{"1", "x"},
		[]any{"1", "-5"},
		[]any{"0", "0"},
		[]any{"0", "5", "v"},
		[]any{"1", "9007199254740992"},
		[]any{"1", "5", int64(3)},
		[]any{"1", "5", "v", "w"},
	} {
		if v, done, err := readReply(reply, nil); !errors.Is(err, locking.ErrUnavailable) || done {
			t.Errorf("readReply(%v): got %+v, %t, %v; want ErrUnavailable", reply, v, done, err)
		}
	}
	if v, done, err := readReply([]any{"1", "5", nil}, nil); err != nil || !done || v.Token != 5 || v.Data != nil {
		t.Errorf("readReply of a raised token: got %+v, %t, %v", v, done, err)
	}
}
