package locking

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Asked tells whether somebody asks the holder of this lease to end, and why. It asks Redis, once: who
// wants to know keeps asking, such as after each renewal ([EventRenewed]). Nothing but the holder's own
// release frees the lock then.
//
// What asks is the key of the lock with ":end" behind it; its value is the ownership token of the holder
// that is meant and, after a space, the reason. One that is meant for an earlier holder is nobody's.
//
// The errors are those of [Locker.Query]; one that is of another type is [ErrConflict]. Of a lease that a
// bare [Keeper] keeps nothing is asked.
func (l *Lease) Asked(ctx context.Context) (reason string, asked bool, err error) {
	if l.home == nil {
		return "", false, nil
	}
	k := l.home.locker
	if err := k.enter(); err != nil {
		return "", false, err
	}
	defer k.wg.Done()
	call, cancel := context.WithTimeout(ctx, k.opt.CallTimeout)
	defer cancel()
	v, err := k.client.Get(call, l.home.keys.end()).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", false, nil
	case ctx.Err() != nil:
		return "", false, fmt.Errorf("ask for the end of %q: %w", l.Name(), ended(ctx))
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return "", false, fmt.Errorf("%w: %s holds another type", ErrConflict, l.home.keys.end())
	case err != nil:
		return "", false, fmt.Errorf("ask for the end of %q: %w", l.Name(), Classify(err))
	}
	reason, asked = strings.CutPrefix(v, l.grant.Token.Reveal()+" ")
	if !asked {
		reason = ""
	}
	return reason, asked, nil
}
