// Package server gives benchmarks a real redis-server, the daemon's own client for it, and an
// account of where the server's time goes.
package server

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/connect"
)

// OpTimeout is the deadline of one call, the config's default.
const OpTimeout = 1500 * time.Millisecond

// Client returns a client for the server at addr, host:port, set up as the daemon's. It is closed
// with the benchmark.
func Client(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	c, err := connect.Open(&config.Config{Redis: config.Redis{URL: "redis://" + addr, OpTimeout: OpTimeout}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	single, ok := c.(*redis.Client)
	if !ok {
		tb.Fatalf("the client of one server is a %T", c)
	}
	return single
}

// OneConnection returns such a client that has a single connection for everything it sends. By
// default go-redis keeps another one for pipelines, and a claim, which is sent as one, would be
// measured against a PING on a different socket.
func OneConnection(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	opt := *Client(tb, addr).Options()
	opt.PoolSize, opt.PipelinePoolSize = 1, -1
	c := redis.NewClient(&opt)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
