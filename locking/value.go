package locking

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

//go:embed take.lua
var takeBody string

// The methods of this file are for callers that know their own tokens: values that are theirs alone,
// and that outlive the process, such as the id of a job in a database. They exclude leases, and leases
// exclude them. Nobody renews such a lock and nobody tells when it is lost: who has no reason to bring
// a value is better off with [Locker.TryAcquire].

// TakeValue makes one attempt to take the lock name for a value, for as long as ttl, and returns the
// fencing token. Taken again with its own value the lock lasts the whole ttl once more, under the same
// fencing token.
//
// The value is any text but the empty one. Whoever has it can release the lock; Redis is only told a
// digest. The ttl is bounded as in [Lease.Renew].
//
// The errors are those of [Locker.TryAcquire]. After [ErrUnavailable], or an end of ctx while Redis was
// asked, the lock may have been taken: take it again with the same value, or release it. So too where
// replicas must confirm it (Options.WaitReplicas): of a value's lock it is not known here whether it was
// the value's before.
func (l *Locker) TakeValue(ctx context.Context, name, value string, ttl time.Duration) (fence int64, err error) {
	if err := l.opt.checkTTL(ttl); err != nil {
		return 0, fmt.Errorf("take %q: %w", name, err)
	}
	err = l.withValue(ctx, "take", name, value, func(ctx context.Context, keys lockKeys, token Token) error {
		floor := l.floors.of(name)
		replies, short := l.take.RunConfirmed(ctx, l.client, l.opt.WaitReplicas, []Call{{
			Keys: []string{keys.lock, keys.fence},
			Args: []any{token.Reveal(), wireMillis(ttl), floor, wireMillis(l.opt.FenceTTL), l.opt.Holder},
		}})
		a, err := readAcquired(replies[0])
		if err != nil {
			return err
		}
		if !a.yes {
			l.floors.saw(name, a.fence)
			return &HeldError{Name: name, Holder: a.holder, Remaining: a.left, FencingToken: a.fence}
		}
		l.sawGrant(name, a.fence, floor)
		if short != nil {
			return short // asked again, and in the end the caller's to take again or to release
		}
		fence = a.fence
		return nil
	})
	return fence, err
}

// ExtendValue makes a lock that is taken for a value last ttl from now on. [ErrLost] says that it is
// not the value's, or not any more. The errors besides are those of TakeValue without [ErrHeld].
func (l *Locker) ExtendValue(ctx context.Context, name, value string, ttl time.Duration) error {
	if err := l.opt.checkTTL(ttl); err != nil {
		return fmt.Errorf("extend %q: %w", name, err)
	}
	return l.withValue(ctx, "extend", name, value, func(ctx context.Context, keys lockKeys, token Token) error {
		v, err := l.resize.Run(ctx, l.client, []string{keys.lock}, token.Reveal(), wireMillis(ttl))
		yes, err := readYes(Reply{Value: v, Err: err})
		if err == nil && !yes {
			return ErrLost
		}
		return err
	})
}

// ReleaseValue frees a lock that is taken for a value, and nobody else's. [ErrLost] says that it is not
// the value's: it may never have been, have expired, or have been freed by a request whose answer was
// lost. The errors besides are those of TakeValue without [ErrHeld].
func (l *Locker) ReleaseValue(ctx context.Context, name, value string) error {
	unanswered := false
	return l.withValue(ctx, "release", name, value, func(ctx context.Context, keys lockKeys, token Token) error {
		deleted, err := l.deleteOwn(ctx, keys, token, l.opt.CallTimeout)
		switch {
		case err != nil:
			unanswered = unanswered || !isCertain(err)
			return err
		case !deleted && !unanswered:
			return ErrLost
		}
		l.queues.released(name)
		return nil
	})
}

// QueryValue is [Locker.Query], and tells besides whether the lock is taken for the value.
func (l *Locker) QueryValue(ctx context.Context, name, value string) (s State, own bool, err error) {
	err = l.withValue(ctx, "query", name, value, func(ctx context.Context, keys lockKeys, token Token) error {
		v, err := l.query.Run(ctx, l.client, []string{keys.lock, keys.fence}, token.Reveal())
		s, own, err = readState(Reply{Value: v, Err: err})
		return err
	})
	if err == nil {
		l.floors.saw(name, s.FencingToken)
	}
	return s, own, err
}

// withValue asks until Redis answers, ctx ends, or twice Options.CallTimeout is over. Every request of
// these methods may be repeated.
func (l *Locker) withValue(ctx context.Context, what, name, value string, ask func(context.Context, lockKeys, Token) error) error {
	keys, err := l.names.keys(name)
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("%s %q: %w", what, name, err) }
	if value == "" {
		return fail(invalid("value: empty"))
	}
	if ctx.Err() != nil {
		return fail(ended(ctx))
	}
	if err := l.enter(); err != nil {
		return fail(err)
	}
	defer l.wg.Done()
	token, began := tokenOf(value), l.keeper.Now()
	for wait := replayAfter; ; wait *= 2 {
		call, cancel := context.WithTimeout(ctx, l.opt.CallTimeout)
		err = ask(call, keys, token)
		cancel()
		switch _, held := errors.AsType[*HeldError](err); {
		case err == nil, held:
			return err
		case ctx.Err() != nil:
			return fail(ended(ctx))
		case !errors.Is(err, ErrUnavailable), l.keeper.Now().Sub(began)+wait > 2*l.opt.CallTimeout:
			return fail(err)
		}
		if !sleep(wait, ctx.Done(), l.closing.Done()) {
			if ctx.Err() != nil {
				return fail(ended(ctx))
			}
			return fail(ErrClosed)
		}
	}
}

// tokenOf makes an ownership token of a value: of one length and alphabet, as the scripts want it,
// and without telling the value to everyone who can read the lock. It begins unlike any text that is
// hashed elsewhere.
func tokenOf(value string) Token {
	sum := sha256.Sum256([]byte("rota lock value\x00" + value))
	return Token(hex.EncodeToString(sum[:16]))
}
