package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// InBubble returns an in-process Redis and a client for it, both of which live wholly in the
// testing/synctest bubble that calls it: the server listens on nothing (it is dialed through
// net.Pipe, whose waits a bubble sees through) and its keys expire on the bubble's clock.
// Outside a bubble it works too, on the real clock. Both end with the test.
//
// Use m.SetTime to give the server a clock of its own, m.SetError to make it refuse
// everything, and [PipeProxy] for finer faults.
func InBubble(t testing.TB) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	// Through a proxy for its buffer: see link.
	return m, PipeProxy(t, m.Dial).Client()
}

// pipeClient returns a client of what dial reaches.
func pipeClient(t testing.TB, dial func() (net.Conn, error)) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:0", // an IP, so that nothing asks DNS inside a bubble
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return dial() },
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
