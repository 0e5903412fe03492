package shadow

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
	"rota/scheduler/ledger"
)

type redisClient = redis.UniversalClient

// session is the dry run that several processes share: who comes while it lasts joins it, with the
// cursors and leases that it has by then.
type session struct {
	namespace, id string
}

// sessionKept is how long it lasts after its last process was heard of: as a host's heartbeat.
const sessionKept = ledger.HostGone

func sessionKey(namespace string) string { return "{" + namespace + "}~dry:session" }

// shadow is the name of the session's shadow of the namespace.
func (s *session) shadow() string { return "dry." + s.id }

// prefix is what all its keys begin with.
func (s *session) prefix() string { return "{" + s.namespace + "}~" + s.shadow() + ":" }

// join finds the session of a namespace, or begins one.
func join(ctx context.Context, client redisClient, namespace string, patience time.Duration) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	own := strings.ToLower(rand.Text()[:10])
	pipe := client.Pipeline()
	pipe.SetNX(ctx, sessionKey(namespace), own, sessionKept)
	found := pipe.Get(ctx, sessionKey(namespace))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("join the dry run: %w", locking.Classify(err))
	}
	return &session{namespace: namespace, id: found.Val()}, nil
}

// keep says that the session lasts. The command answers with its id, or that of another which began
// when Redis had forgotten this one.
func (s *session) keep(ctx context.Context, pipe redis.Pipeliner) *redis.StringCmd {
	pipe.SetNX(ctx, sessionKey(s.namespace), s.id, sessionKept)
	pipe.PExpire(ctx, sessionKey(s.namespace), sessionKept)
	return pipe.Get(ctx, sessionKey(s.namespace))
}

// end lets the next dry run begin anew at once. A process that joined in this moment says again that
// the session lasts.
func (s *session) end(ctx context.Context, client redisClient) {
	if id, err := client.Get(ctx, sessionKey(s.namespace)).Result(); err == nil && id == s.id {
		_ = client.Del(ctx, sessionKey(s.namespace)).Err() // it expires anyway
	}
}

// first is the first error of a pipeline that is not a missing key.
func first(cmds []redis.Cmder, err error) error {
	for _, c := range cmds {
		if e := c.Err(); e != nil && !errors.Is(e, redis.Nil) {
			return locking.Classify(e)
		}
	}
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return locking.Classify(err)
}
