package shadow

import (
	"context"
	"net"

	"github.com/redis/go-redis/v9"
)

// counting counts the commands that the hosts of this process send, by the second: those of a
// pipeline each, and not what a script does inside Redis.
type counting struct{ collector *collector }

func (c counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.collector.count(1)
		return next(ctx, cmd)
	}
}

func (c counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.collector.count(len(cmds))
		return next(ctx, cmds)
	}
}
