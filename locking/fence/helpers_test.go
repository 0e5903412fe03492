package fence

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// onBoth runs a test on a real redis-server and on the in-process one.
func onBoth(t *testing.T, run func(t *testing.T, c *redis.Client)) {
	t.Helper()
	t.Run("redis-server", func(t *testing.T) { run(t, redistest.Server(t).Client()) })
	t.Run("in process", func(t *testing.T) {
		_, c := redistest.InBubble(t)
		run(t, c)
	})
}

func newRedis(t testing.TB, c redis.UniversalClient) *Redis {
	t.Helper()
	r, err := NewRedis(c, RedisOptions{Prefix: "{app}:fence:"})
	if err != nil {
		t.Fatalf("NewRedis: %v", err)
	}
	return r
}

// do sends one command and returns the answer; nil for none.
func do(t testing.TB, c *redis.Client, args ...any) any {
	t.Helper()
	v, err := c.Do(context.WithoutCancel(t.Context()), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// refused checks that an error is a StaleError that names both tokens.
func refused(t testing.TB, err error, token, stored int64) {
	t.Helper()
	stale, ok := errors.AsType[*StaleError](err)
	if !ok || !errors.Is(err, ErrStale) || stale.Token != token || stale.Stored != stored {
		t.Errorf("a write with token %d: got %v, want a StaleError that names %d and %d", token, err, token, stored)
	}
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: got %v, want it let through", what, err)
	}
}
