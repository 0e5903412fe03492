package ledger

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// trips gives each of several round trips, one after the other, as long as the caller's context had
// left at first: how many they are, and what is done in between, costs none of them its time.
type trips struct {
	each    time.Duration
	bounded bool
}

func tripsOf(ctx context.Context) trips {
	deadline, ok := ctx.Deadline()
	return trips{each: time.Until(deadline), bounded: ok}
}

// begin is for the next trip, of the same context. Once that is cancelled there are no more; a call
// that was written is not interrupted by that anyway.
func (t trips) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	if !t.bounded || errors.Is(ctx.Err(), context.Canceled) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), t.each)
}

// unrepeated is a command that the client does not send again by itself when no answer came, as a
// Cluster's does whatever its options say: a second XADD would be a second request.
type unrepeated struct{ redis.Cmder }

// NoRetry is what go-redis asks.
func (unrepeated) NoRetry() bool { return true }

// askTime asks for Redis' clock in a pipeline about the ledger's keys, and returns what reads the answer
// once there is one. On a Cluster TIME belongs to no slot and would be answered by any node; the clock
// by which scripts decide is that of the node which has the keys.
func (l *Ledger) askTime(ctx context.Context, pipe redis.Pipeliner) func() time.Time {
	if _, isCluster := l.client.(*redis.ClusterClient); !isCluster {
		return pipe.Time(ctx).Val
	}
	asked := pipe.Eval(ctx, "return redis.call('TIME')", []string{l.keys.hosts()})
	return func() time.Time {
		t := texts(asked.Val())
		if len(t) != 2 {
			return time.Time{}
		}
		seconds, _ := strconv.ParseInt(t[0], 10, 64)
		micros, _ := strconv.ParseInt(t[1], 10, 64)
		return time.Unix(seconds, micros*int64(time.Microsecond))
	}
}
