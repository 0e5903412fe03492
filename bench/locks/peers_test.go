package locks

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"rota/locking"
)

const ttl = 30 * time.Second

// A peer takes a lock and returns what gives it back. Each has a client of its own with that
// client's defaults, as its documentation shows it.
type peer struct {
	name string
	take func(ctx context.Context, name string) (release func())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func client(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func newLocker(tb testing.TB, addr string, opt locking.Options) *locking.Locker {
	tb.Helper()
	opt.TTL = ttl
	l, err := locking.New(client(tb, addr), opt)
	must(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// rota is the library itself: the lease is renewed and watched while it is held.
func rota(tb testing.TB, addr string) peer {
	tb.Helper()
	l := newLocker(tb, addr, locking.Options{})
	return peer{"rota", func(ctx context.Context, name string) func() {
		lease, err := l.TryAcquire(ctx, name)
		must(tb, err)
		return func() { must(tb, lease.Release(ctx)) }
	}}
}

// bare sends the library's own two scripts, and does nothing else.
func bare(tb testing.TB, addr string) peer {
	tb.Helper()
	c := client(tb, addr)
	script := func(file string) string {
		body, err := os.ReadFile("../../locking/" + file)
		must(tb, err)
		s := locking.NewScript(string(body))
		_, err = s.Run(tb.Context(), c, []string{"k", "k:fence"}, "ab", "1000", "0", "1000", "warm-up")
		must(tb, err)
		must(tb, c.Del(tb.Context(), "k", "k:fence").Err())
		return s.SHA()
	}
	acquire, release := script("acquire.lua"), script("release.lua")
	return peer{"bare EVALSHA", func(ctx context.Context, name string) func() {
		lock, token := "bare:{"+name+"}", locking.NewToken().Reveal()
		keys := []string{lock, lock + ":fence"}
		v, err := c.EvalSha(ctx, acquire, keys, token, ttl.Milliseconds(), 0, 604800000, "bench").Result()
		must(tb, err)
		if v.([]any)[0] != "1" {
			tb.Fatalf("bare acquire: %v", v)
		}
		return func() {
			v, err := c.EvalSha(ctx, release, []string{lock}, token, 0, lock+":freed").Result()
			must(tb, err)
			if v != "1" {
				tb.Fatalf("bare release: %v", v)
			}
		}
	}}
}

func lockOfRedislock(tb testing.TB, addr string) peer {
	tb.Helper()
	c := redislock.New(client(tb, addr))
	return peer{"redislock", func(ctx context.Context, name string) func() {
		lock, err := c.Obtain(ctx, "redislock:"+name, ttl, nil)
		must(tb, err)
		return func() { must(tb, lock.Release(ctx)) }
	}}
}

func lockOfRedsync(tb testing.TB, addr string) peer {
	tb.Helper()
	rs := redsync.New(goredis.NewPool(client(tb, addr)))
	return peer{"redsync", func(ctx context.Context, name string) func() {
		m := rs.NewMutex("redsync:"+name, redsync.WithExpiry(ttl))
		must(tb, m.TryLockContext(ctx))
		return func() {
			if ok, err := m.UnlockContext(ctx); err != nil || !ok {
				tb.Fatalf("redsync: unlock: %t, %v", ok, err)
			}
		}
	}}
}

func lockOfRueidis(tb testing.TB, addr string) peer {
	tb.Helper()
	l := rueidisLocker(tb, addr)
	return peer{"rueidislock", func(ctx context.Context, name string) func() {
		// It frees the key in the background: until then the name is taken.
		for {
			_, release, err := l.TryWithContext(ctx, name)
			if errors.Is(err, rueidislock.ErrNotLocked) {
				continue
			}
			must(tb, err)
			return func() { release() }
		}
	}}
}

func rueidisLocker(tb testing.TB, addr string) rueidislock.Locker {
	tb.Helper()
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyValidity:  ttl, KeyMajority: 1,
	})
	must(tb, err)
	tb.Cleanup(l.Close)
	return l
}
