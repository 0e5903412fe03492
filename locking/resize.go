package locking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
)

//go:embed resize.lua
var resizeBody string

// Renew extends the lease now, and makes it last ttl from here and with every renewal after this: for
// work that turns out to be longer, or a holder that would rather be replaced sooner. With the ttl
// it has it is a renewal like those that come by themselves.
//
// It asks until Redis answers, ctx ends, or Options.CallTimeout or the lease is over. Once it has
// returned nil, the lease is trusted until the request was sent, plus ttl, minus Options.Margin.
// [ErrLost] says that the lease has been lost, and [ErrReleased] that it was released. After any other
// error the lease goes on, trusted no longer than either length allows: a request that got no answer
// may be handled any time later, so its ttl bounds all lengths that come after it.
//
// The ttl must be between 10 ms and Options.MaxTTL, above Options.Margin and at most
// Options.FenceTTL: else the error matches [ErrInvalidOptions], and Redis was not asked. MaxHold is
// counted on. A lease that a bare [Keeper] keeps has nobody to ask: [errors.ErrUnsupported].
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	if l.home == nil {
		return fmt.Errorf("renew %q: no Locker: %w", l.Name(), errors.ErrUnsupported)
	}
	locker := l.home.locker
	if err := locker.opt.checkTTL(ttl); err != nil {
		return fmt.Errorf("renew %q: %w", l.Name(), err)
	}
	if err := locker.enter(); err != nil {
		return fmt.Errorf("renew %q: %w", l.Name(), err)
	}
	defer locker.wg.Done()
	turn, err := l.takeTurn(ctx)
	if err != nil {
		return fmt.Errorf("renew %q: %w", l.Name(), err)
	}
	defer close(turn.done)
	defer l.keeper.poke()

	ctx, cancel := context.WithTimeout(ctx, min(locker.opt.CallTimeout, l.Remaining()))
	defer cancel()
	var (
		sent       Instant
		unanswered bool
	)
	for wait := replayAfter; ; wait *= 2 {
		sent = l.keeper.Now()
		l.shorten(sent, ttl)
		v, failed := locker.resize.Run(ctx, locker.client, []string{l.home.keys.lock}, l.grant.Token.Reveal(), wireMillis(ttl))
		var yes bool
		yes, err = readYes(Reply{Value: v, Err: failed})
		if err == nil && !yes {
			err = ErrLost
		}
		unanswered = unanswered || err != nil && !isCertain(err)
		if err == nil || !errors.Is(err, ErrUnavailable) || !sleep(wait, ctx.Done(), locker.closing.Done()) {
			break
		}
	}
	if err := l.renewed(sent, ttl, unanswered, err); err != nil {
		return fmt.Errorf("renew %q: %w", l.Name(), err)
	}
	return nil
}

// takeTurn waits for the renewal that is under way, and lets none begin until the turn is over: two
// requests that give the lease different lengths must not overtake each other.
func (l *Lease) takeTurn(ctx context.Context) (*batch, error) {
	for {
		l.mu.Lock()
		if l.err != nil || l.over {
			defer l.mu.Unlock()
			return nil, l.err
		}
		under := l.batch
		if under == nil {
			l.batch = &batch{done: make(chan struct{})}
			defer l.mu.Unlock()
			return l.batch, nil
		}
		l.mu.Unlock()
		select {
		case <-under.done:
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
}

// shorten trusts the lease no longer than a request allows that is about to be sent: whether and when
// Redis handles it is not known.
func (l *Lease) shorten(sent Instant, ttl time.Duration) {
	shorter := *l.grant
	shorter.TTL = ttl
	var loss *LossError
	l.mu.Lock()
	if !l.over && shorter.trusted() < l.remaining(sent) {
		l.sent = sent
		l.resize(ttl)
		loss = l.judge(sent)
	}
	l.mu.Unlock()
	l.keeper.report(l, loss)
}

// renewed takes the answer.
func (l *Lease) renewed(sent Instant, ttl time.Duration, unanswered bool, err error) error {
	now := l.keeper.Now()
	l.mu.Lock()
	l.batch = nil
	if unanswered {
		l.most = min(l.most, ttl)
		l.resize(l.ttl)
	}
	loss := l.judge(now) // by the length it had
	if err == nil && loss == nil && !l.over {
		l.resize(ttl)
	}
	settled, late := l.settle(sent, now, err, false)
	if loss == nil {
		loss = settled
	}
	first := l.fails == 1 && !l.over
	if l.err != nil {
		err = l.err
	}
	l.mu.Unlock()
	l.keeper.settled(l, err, loss, late, first)
	return err
}
