package locking

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Only what names this lease's own ownership token asks its holder.
func TestLease_Asked(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		l := bubbled(t, c, Options{Prefix: "{asked}:lock:", TTL: time.Minute})
		lease, err := l.TryAcquire(t.Context(), "db")
		if err != nil {
			t.Fatal(err)
		}
		const end = "{asked}:lock:db:end"
		token := lease.grant.Token.Reveal()
		for value, want := range map[string]string{
			token + " deploy of 2":               "deploy of 2",
			token + " ":                          "",
			"0123456789abcdef0123456789abcdef x": "-",
			token:                                "-",
			token + "0 x":                        "-",
		} {
			if err := c.Set(t.Context(), end, value, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			reason, asked, err := lease.Asked(t.Context())
			if err != nil || asked != (want != "-") || asked && reason != want {
				t.Errorf("Asked() with %q in the key = %q, %t, %v, want %q", value, reason, asked, err, want)
			}
		}
		c.Del(t.Context(), end)
		if reason, asked, err := lease.Asked(t.Context()); asked || err != nil {
			t.Errorf("Asked() without the key = %q, %t, %v", reason, asked, err)
		}
		c.HSet(t.Context(), end, "a", "b")
		if _, asked, err := lease.Asked(t.Context()); asked || !errors.Is(err, ErrConflict) {
			t.Errorf("Asked() with a hash at the key = %t, %v, want ErrConflict", asked, err)
		}
		c.Del(t.Context(), end)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
