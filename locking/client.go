package locking

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dedicatedPool is how many connections a Locker's own client opens at most, and as many
// again for renewals: go-redis sends pipelines over a pool of their own.
const dedicatedPool = 4

// dedicated returns a client of the Locker's own for the same server as c, and true; or c
// itself, and false, if it does not know how to copy one. The Redis of a renewal must not
// depend on what an application does with its pool: with every connection of it in BLPOP, a
// renewal would wait for the pool's timeout, 6 s by default.
//
// What is different in the copy, and why:
//
//   - ContextTimeoutEnabled: without it neither deadline nor cancellation reaches a read.
//
//   - MaxRetries -1, DialerRetries 1: repeating is decided here, where it is known what a
//     lost reply means.
//
//   - Timeouts of one call, instead of 5 s.
//
//   - No maintenance notifications (they ask DNS), no client-side cache, no Limiter: each
//     can keep a renewal from being sent.
//
//   - Its connections can be ended under a request whose caller leaves.
//
//   - With Sentinels, connections that end: see [SentinelConnLife].
//
// Hooks of c are not copied: go-redis has no way to.
func dedicated(c redis.UniversalClient, call, ttl time.Duration, r *requests) (redis.UniversalClient, bool) {
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch c := c.(type) {
	case *redis.Client:
		opt := *c.Options()
		opt.ContextTimeoutEnabled = true
		opt.MaxRetries, opt.DialerRetries = -1, 1
		opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = call, call, call, call
		opt.PoolSize, opt.PipelinePoolSize = dedicatedPool, maxInFlight
		opt.MinIdleConns, opt.MaxIdleConns, opt.MaxActiveConns, opt.MaxConcurrentDials = 0, 0, 0, 0
		opt.PipelineReadBufferSize, opt.PipelineWriteBufferSize = opt.ReadBufferSize, opt.WriteBufferSize
		opt.Limiter, opt.PushNotificationProcessor = nil, nil
		opt.ClientSideCache, opt.ClientSideCacheConfig = nil, nil
		opt.MaintNotificationsConfig = off
		if opt.Addr == failoverAddr {
			opt.ConnMaxLifetime, opt.ConnMaxLifetimeJitter = SentinelConnLife(ttl), 0
		}
		opt.Dialer = r.dialer(opt.Dialer, call)
		return redis.NewClient(&opt), true
	case *redis.ClusterClient:
		opt := *c.Options()
		opt.ContextTimeoutEnabled = true
		opt.MaxRetries, opt.DialerRetries = -1, 1
		opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout, opt.PoolTimeout = call, call, call, call
		opt.PoolSize, opt.PipelinePoolSize = dedicatedPool, maxInFlight
		opt.MinIdleConns, opt.MaxIdleConns, opt.MaxActiveConns, opt.MaxConcurrentDials = 0, 0, 0, 0
		opt.DisableRoutingPolicies = true                                         // else it asks for COMMAND, five seconds long and whatever the deadline
		opt.ReadOnly, opt.RouteByLatency, opt.RouteRandomly = false, false, false // a replica grants nothing
		opt.MaintNotificationsConfig = off
		if opt.Dialer == nil {
			opt.Dialer = redis.NewDialer(&redis.Options{DialTimeout: call, TLSConfig: opt.TLSConfig})
		}
		opt.Dialer = r.dialer(opt.Dialer, call)
		return redis.NewClusterClient(&opt), true
	}
	return c, false
}

// failoverAddr is what go-redis gives as the address of a client with Sentinels.
const failoverAddr = "FailoverClient"

// SentinelConnLife is how long a connection to a master that Sentinels named should be used, by who
// renews leases of ttl over it. A master that was replaced and cannot be reached by the Sentinels, but
// by this host, goes on to answer: its leases would be renewed there, while the new master grants them
// to others. Each new connection asks the Sentinels again, and comes while the lease there still lives.
func SentinelConnLife(ttl time.Duration) time.Duration { return max(ttl/3, time.Second) }

// until is a context with a deadline and no timer of its own: the Locker's own client sets deadlines on
// its connections by it. What ends it besides is its parent.
type until struct {
	context.Context

	deadline time.Time
}

// Deadline returns the earlier one of its own and its parent's.
func (u *until) Deadline() (time.Time, bool) {
	if d, ok := u.Context.Deadline(); ok && d.Before(u.deadline) {
		return d, true
	}
	return u.deadline, true
}

// within bounds one request. The function it returns must be called when that is over.
func (l *Locker) within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if l.own {
		return &until{ctx, time.Now().Add(timeout)}, func() {}
	}
	return context.WithTimeout(ctx, timeout)
}
