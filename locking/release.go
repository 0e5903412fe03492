package locking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"
)

//go:embed release.lua
var releaseBody string

// home is where a lease is given back.
type home struct {
	locker *Locker
	keys   lockKeys
	stray  bool // a request for this lease got no answer, and could arrive after its release

	mu         sync.Mutex // one release at a time, over its request; guards what follows
	done       bool       // Redis has answered
	err        error      // what Release returns from then on
	unanswered bool       // a request may have deleted the lock and its answer been lost
}

// Release ends the lease and frees its lock, or with Options.MinHold lets it expire when that
// is over: it stops the renewals as [Lease.Stop] does,
// then deletes the lock if it still holds this lease's ownership token, whatever has become
// of ctx: of that only the values are used. The request has a timeout of its own,
// Options.CallTimeout, or what is left of the lease if that is shorter.
//
// It returns nil if the lock was freed, also when called again. An error that matches
// [ErrLost] says that the lease had been lost before: somebody else may have held the lock
// meanwhile, and their lease is untouched. One that matches [ErrUnavailable] says that Redis
// did not answer; the lock is then freed in the background, at the latest when its TTL has
// passed, and Release can be called again to ask. Of a lease that a bare [Keeper] keeps
// there is nothing to free: Release is Stop, and returns how the lease was lost, or nil.
func (l *Lease) Release(ctx context.Context) error {
	l.Stop()
	loss := l.loss()
	if l.home == nil {
		return loss
	}
	h := l.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return h.err
	}
	if err := h.locker.enter(); err != nil {
		if loss != nil {
			return loss
		}
		return fmt.Errorf("release %q: %w", l.Name(), err)
	}
	defer h.locker.wg.Done()

	deleted, err := h.free(ctx, l)
	switch {
	case err != nil:
		return errors.Join(loss, fmt.Errorf("release %q: %w", l.Name(), err))
	case loss == nil && !deleted && !h.unanswered:
		loss = &LossError{Name: l.Name(), Reason: ReasonRefused}
	}
	kept := h.keep(l) > 0
	if h.stray && !kept {
		h.locker.takeBack(ctx, h.keys, l.grant.Token, h.locker.linger())
	}
	h.done, h.err = true, loss
	if !kept {
		h.locker.queues.released(l.Name())
	}
	return loss
}

// free asks Redis to delete the lock until there is an answer or no time is left for one.
// After a request without answer, "not there" means that it was deleted.
func (h *home) free(ctx context.Context, l *Lease) (deleted bool, err error) {
	timeout := h.locker.opt.CallTimeout
	if left := l.Remaining(); left > 0 {
		timeout = min(timeout, left)
	}
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	for wait := replayAfter; ; wait *= 2 {
		deleted, err = h.locker.giveUp(ctx, h.keys, l.grant.Token, h.keep(l), timeout-time.Since(began))
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return deleted, err
		}
		h.unanswered = h.unanswered || !isCertain(err)
		rest := timeout - time.Since(began)
		if !sleep(min(wait, rest), h.locker.closing.Done(), nil) || wait >= rest {
			if h.keep(l) == 0 {
				h.locker.takeBack(ctx, h.keys, l.grant.Token, 0)
			}
			return false, err
		}
	}
}

// keep is how long the lock must be held on although its lease is over.
func (h *home) keep(l *Lease) time.Duration {
	if h.locker.opt.MinHold == 0 {
		return 0
	}
	return max(0, h.locker.opt.MinHold-h.locker.keeper.Now().Sub(l.grant.Sent))
}

// loss returns how the lease was lost, or nil.
func (l *Lease) loss() error {
	if err := l.Err(); errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// deleteOwn sends one compare-and-delete.
func (l *Locker) deleteOwn(ctx context.Context, keys lockKeys, token Token, timeout time.Duration) (bool, error) {
	return l.giveUp(ctx, keys, token, 0, timeout)
}

// giveUp sends one compare-and-delete, or with keep above 0 leaves the lock to expire then.
func (l *Locker) giveUp(ctx context.Context, keys lockKeys, token Token, keep, timeout time.Duration) (bool, error) {
	ctx, cancel := l.within(ctx, timeout)
	defer cancel()
	after := int64(0)
	if keep > 0 {
		after = wireMillis(keep)
	}
	v, err := l.release.Run(ctx, l.client, []string{keys.lock}, token.Reveal(), after)
	return readYes(Reply{Value: v, Err: err})
}
