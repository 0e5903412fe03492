package redischeck

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kinds of keys, by a command that answers WRONGTYPE to another.
const (
	aString = "GET"
	aHash   = "HLEN"
	aStream = "XLEN"
	aSet    = "SCARD"
)

// leaseText is the beginning of a lock's value: ownership token, fencing token, ttl (locking/lease.lua).
var leaseText = regexp.MustCompile(`^[0-9a-f]+\|[0-9]{1,16}\|[0-9]+\|`)

var digits = regexp.MustCompile(`^[0-9]{1,16}$`)

// namesAtOnce bounds the keys that are looked at in one call.
const namesAtOnce = 500

// names looks at the keys that the fleet and the table will use: what somebody else wrote there makes
// claims fail, one by one and at night.
func (c *checker) names(ctx context.Context) {
	type named struct{ kind, key string }
	all := []named{
		{aHash, "hosts"},
		{aHash, "drain"},
		{aHash, "paused"},
		{aStream, "requests"},
		{aSet, "open"},
		{aString, "epoch"},
	}
	for _, job := range c.opt.Jobs {
		all = append(all, named{aHash, "job:" + job}, named{aStream, "job:" + job + ":runs"},
			named{aStream, "job:" + job + ":fails"}, named{aStream, "job:" + job + ":skips"})
	}
	for _, lock := range c.opt.Locks {
		all = append(all, named{aString, "lock:" + lock}, named{aString, "lock:" + lock + ":fence"})
	}
	for chunk := range slices.Chunk(all, namesAtOnce) {
		call, cancel := context.WithTimeout(ctx, c.opt.OpTimeout)
		pipe := c.node.Pipeline()
		values := make([]*redis.Cmd, len(chunk))
		left := make([]*redis.Cmd, len(chunk))
		for i, k := range chunk {
			values[i] = pipe.Do(call, k.kind, c.key(k.key))
			left[i] = pipe.Do(call, "PTTL", c.key(k.key))
		}
		_, _ = pipe.Exec(call) // each has its own error
		cancel()
		for i, k := range chunk {
			value, err := values[i].Text()
			isFence := strings.HasSuffix(k.key, ":fence")
			isLock := strings.HasPrefix(k.key, "lock:") && !isFence
			switch ms, _ := left[i].Int64(); {
			case redis.HasErrorPrefix(err, "WRONGTYPE"):
				c.foreign(k.key, "holds another type")
			case err != nil:
			case isLock && value != "" && !leaseText.MatchString(value):
				c.foreign(k.key, "holds a value that is no lease")
			case isLock && value != "" && ms == -1:
				c.foreign(k.key, "is a lock without expiry, which nobody frees")
			case isFence && value != "" && !digits.MatchString(value):
				c.foreign(k.key, "holds no fencing token")
			}
		}
	}
}

func (c *checker) foreign(key, what string) {
	c.found(Fault, "keys", c.key(key)+" "+what+": whatever needs it is refused",
		fmt.Sprintf("find who wrote it, and RENAME or DEL it; or give the fleet another namespace than %q", c.opt.Namespace))
}
