package fence

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

//go:embed value.lua
var valuePrelude string

//go:embed write.lua
var writeBody string

//go:embed read.lua
var readBody string

const (
	defaultPrefix      = "rota:fence:"
	defaultCallTimeout = 1500 * time.Millisecond
)

// RedisOptions configure a [Redis].
type RedisOptions struct {
	// Prefix begins every key. One with a hash tag, as "{app}:fence:", puts all of them into one slot
	// of a Cluster; for those of `rota fence` see [NamespacePrefix]. "": "rota:fence:".
	Prefix string

	// CallTimeout bounds each request. 0: 1.5 s.
	CallTimeout time.Duration
}

// NamespacePrefix is the prefix under which the fleet of a namespace keeps its guarded values, those of
// `rota fence`: "{NAMESPACE}:fence:". A program of one's own that uses it shares them.
func NamespacePrefix(namespace string) string { return "{" + namespace + "}:fence:" }

// Redis guards values that Redis keeps: hashes of a token and a value, which do not expire. Each method
// is one Lua script in one round trip. The server must keep them: with persistence, and with
// maxmemory-policy noeviction or one of the volatile ones.
//
// A failover to a replica that lags may lose the last writes, and the tokens with them. Data that must
// survive that belongs into a store that does: see [SQL].
type Redis struct {
	client      redis.UniversalClient
	opt         RedisOptions
	write, read *locking.Script
}

// Value is what a guarded key holds.
type Value struct {
	Token int64  // the highest that was seen; 0: none
	Data  []byte // nil: nothing was written yet. What was written empty is not nil
}

// NewRedis makes a Redis over a client, which stays the caller's. It does not connect. The client should
// have ContextTimeoutEnabled set, or a server that hangs is waited for as long as its own timeouts say.
// Its retries do not count: nothing is repeated.
//
// All faults are in one error, which matches [ErrInvalid]. A [redis.Ring] is one: when a shard is down it
// looks for its keys on others, which have seen no token.
func NewRedis(client redis.UniversalClient, opt RedisOptions) (*Redis, error) {
	opt.Prefix = cmp.Or(opt.Prefix, defaultPrefix)
	opt.CallTimeout = cmp.Or(opt.CallTimeout, defaultCallTimeout)
	var faults []error
	switch client.(type) {
	case nil:
		faults = append(faults, invalid("client: nil"))
	case *redis.Ring:
		faults = append(faults, invalid("client: a redis.Ring would forget its tokens when a shard is down"))
	}
	if err := checkPrefix(opt.Prefix); err != nil {
		faults = append(faults, err)
	}
	if opt.CallTimeout < 0 {
		faults = append(faults, invalid("CallTimeout: %s is negative", opt.CallTimeout))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Redis{
		client: client, opt: opt,
		write: locking.NewScript(valuePrelude, writeBody), read: locking.NewScript(valuePrelude, readBody),
	}, nil
}

// checkPrefix refuses braces that are no hash tag (Redis documentation, "Cluster specification").
func checkPrefix(prefix string) error {
	open, end := strings.IndexByte(prefix, '{'), strings.IndexByte(prefix, '}')
	if open < 0 && end < 0 || open >= 0 && end > open+1 && strings.Count(prefix, "{") == 1 && strings.Count(prefix, "}") == 1 {
		return nil
	}
	return invalid("Prefix: %q has braces that are not one tag, as in \"{app}:fence:\"", prefix)
}

// Write replaces the value of key, if token is at least the highest that the key has seen, which it then
// is. Nil data is written as empty.
//
// The error matches [ErrStale] if the token is lower: then nothing was changed. It matches [ErrConflict]
// if the key holds something else, and [ErrInvalid] if key, token or data cannot be used: before Redis is
// asked. It matches [locking.ErrUnavailable] if Redis did not answer, or not as it should, or is full;
// [locking.MayHaveRun] tells whether the value may have been written all the same. Then, and after an end
// of ctx, repeat the same write until there is an answer: it is safe, and it keeps a later write of the
// same holder from being overtaken by this one.
func (r *Redis) Write(ctx context.Context, key string, token int64, data []byte) error {
	if err := check(key, token); err != nil {
		return err
	}
	if len(data) > MaxValueBytes {
		return invalid("value: %d bytes, at most %d are allowed", len(data), MaxValueBytes)
	}
	_, err := r.call(ctx, r.write, key, token, token, "1", data)
	return err
}

// Raise lets token in, and nothing below it from then on, and returns what the key holds. The value stays.
// Who reads a value to write it back begins with this: a holder that was overtaken cannot come in between.
// The errors are those of [Redis.Write].
func (r *Redis) Raise(ctx context.Context, key string, token int64) (Value, error) {
	if err := check(key, token); err != nil {
		return Value{}, err
	}
	return r.call(ctx, r.write, key, token, token, "0", "")
}

// Read returns what the key holds, a Value with Token 0 if it holds nothing. It changes nothing and is no
// beginning of a write: see [Redis.Raise]. The errors are those of [Redis.Write] without [ErrStale].
func (r *Redis) Read(ctx context.Context, key string) (Value, error) {
	if err := CheckKey(key); err != nil {
		return Value{}, err
	}
	return r.call(ctx, r.read, key, 0)
}

func (r *Redis) call(ctx context.Context, script *locking.Script, key string, token int64, args ...any) (Value, error) {
	call, cancel := context.WithTimeout(ctx, r.opt.CallTimeout)
	defer cancel()
	reply, err := script.Run(call, r.client, []string{r.opt.Prefix + key}, args...)
	v, done, err := readReply(reply, err)
	switch {
	case err != nil:
		return Value{}, fmt.Errorf("fence %q: %w", key, err)
	case !done:
		return Value{}, &StaleError{Key: key, Token: token, Stored: v.Token}
	}
	return v, nil
}
