package locking

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestProperty39_Names(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // nothing listens
	t.Cleanup(func() { _ = client.Close() })
	plain := newLocker(t, client, Options{})
	tagged := newLocker(t, client, Options{Prefix: "{app}:lock:"})
	for _, c := range []struct {
		name              string
		inPlain, inTagged bool
	}{
		{"report", true, true},
		{"a:b", true, false},
		{"a:fence", true, false},
		{"", false, false},
		{"{", false, false},
		{"a}:fence", false, false},
		{"{}", false, false},
		{strings.Repeat("x", 512), true, true},
		{strings.Repeat("x", 513), false, false},
		{"a\x00b\xff\r\n", true, true},
	} {
		for _, l := range []struct {
			*Locker
			good bool
		}{{plain, c.inPlain}, {tagged, c.inTagged}} {
			_, err := l.names.keys(c.name)
			if (err == nil) != l.good || err != nil && !errors.Is(err, ErrInvalidName) {
				t.Errorf("prefix %q, name %.20q: got %v, want accepted %t, else ErrInvalidName", l.opt.Prefix, c.name, err, l.good)
			}
			if !l.good {
				if _, err := l.TryAcquire(t.Context(), c.name); !errors.Is(err, ErrInvalidName) {
					t.Errorf("TryAcquire(%.20q): got %v, want ErrInvalidName", c.name, err)
				}
				if _, err := l.Query(t.Context(), c.name); !errors.Is(err, ErrInvalidName) {
					t.Errorf("Query(%.20q): got %v, want ErrInvalidName", c.name, err)
				}
			}
		}
	}
	if got, _ := plain.names.keys("report"); got != (lockKeys{"rota:lock:{report}", "rota:lock:{report}:fence"}) {
		t.Errorf("keys: got %+v", got)
	}
	if got, _ := tagged.names.keys("report"); got != (lockKeys{"{app}:lock:report", "{app}:lock:report:fence"}) {
		t.Errorf("keys: got %+v", got)
	}
}

// Names that would break a script or the protocol if they were spliced into either.
func TestProperty39_NamesOfAnyBytesWork(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := newLocker(t, c, Options{Boottime: stopped, Holder: "h|\r\n\x00\xff'\"]]"})
		for _, name := range []string{
			"a\x00b", "\xff\xfe", "\r\n+OK\r\n", `'"]]--`, "*3\r\n$3\r\nSET\r\n", " ", "|", "%s%n", "名前",
		} {
			lease := mustAcquire(t, l, name)
			held, ok := errors.AsType[*HeldError](func() error { _, err := l.TryAcquire(t.Context(), name); return err }())
			if !ok || held.Name != name || held.Holder != l.opt.Holder {
				t.Errorf("TryAcquire(%q) again: got %+v, want held by %q", name, held, l.opt.Holder)
			}
			mustRelease(t, lease)
		}
		n := 0
		for iter := c.Scan(t.Context(), 0, "*", 0).Iterator(); iter.Next(t.Context()); {
			if n++; !strings.HasSuffix(iter.Val(), "}:fence") {
				t.Errorf("key %q is left", iter.Val())
			}
		}
		if n != 9 {
			t.Errorf("%d keys are left, want a fence for each of 9 names", n)
		}
	})
}

// Property 38: a lock's keys share a slot, by what the server itself computes.
func TestProperty38_KeysShareASlot(t *testing.T) {
	s := redistest.Server(t, "--cluster-enabled", "yes")
	c := s.Client()
	for _, prefix := range []string{"rota:lock:", "{app}:lock:", "", "a b"} {
		n, err := newNaming(prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"report", "r", "名前", "\x00\xff", "a b", strings.Repeat("x", 512)} {
			keys, err := n.keys(name)
			if err != nil {
				t.Fatal(err)
			}
			lock, fence := do(t, c, "CLUSTER", "KEYSLOT", keys.lock), do(t, c, "CLUSTER", "KEYSLOT", keys.fence)
			if lock != fence {
				t.Errorf("prefix %q, name %q: slots %v and %v, want one", prefix, name, lock, fence)
			}
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"report", "a:fence", "}:fence", "{x}", "\x00", "\xff", ""} {
		f.Add(seed, "report")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, prefix := range []string{"rota:lock:", "{app}:lock:"} {
			n, err := newNaming(prefix)
			if err != nil {
				t.Fatal(err)
			}
			ka, err := n.keys(a)
			if err != nil {
				continue
			}
			kb, err := n.keys(b)
			if err != nil {
				continue
			}
			if ka.lock == kb.fence || ka.fence == kb.lock || (ka.lock == kb.lock) != (a == b) || (ka.fence == kb.fence) != (a == b) {
				t.Errorf("names %q and %q share a key: %+v, %+v", a, b, ka, kb)
			}
			if tagOf(ka.lock) == "" || tagOf(ka.lock) != tagOf(ka.fence) {
				t.Errorf("name %q: hash tags %q and %q, want one that is not empty", a, tagOf(ka.lock), tagOf(ka.fence))
			}
		}
	})
}

// tagOf is the hash tag as the cluster specification defines it.
func tagOf(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); ok && closed {
		return tag
	}
	return ""
}
