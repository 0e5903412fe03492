package locking

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"
)

//go:embed acquire.lua
var acquireBody string

const (
	// replayAfter is the wait before an unanswered acquisition is repeated, doubled each
	// time: long enough for a connection to be opened again, short beside any lease.
	replayAfter = 5 * time.Millisecond
	// maxTaking bounds the grants that are being taken back at once. Above it the TTL does it.
	maxTaking = 256
)

// tryAcquire makes one attempt. Of one that waits the release is told.
func (l *Locker) tryAcquire(ctx, parent context.Context, name string, waits bool) (*Lease, error) {
	keys, err := l.names.keys(name)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire %q: %w", name, ended(ctx))
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.wg.Done()
	g, stray, err := l.ask(ctx, name, keys, waits)
	if err != nil {
		return nil, err
	}
	lease := l.keeper.Keep(parent, g)
	lease.home = &home{locker: l, keys: keys, stray: stray}
	l.keeper.observe(lease, EventAcquired, nil)
	return lease, nil
}

// ask asks for the lock until there is an answer or no time is left for one. Unanswered tells
// that a request got no answer, and may be on its way still.
func (l *Locker) ask(ctx context.Context, name string, keys lockKeys, waits bool) (g Grant, unanswered bool, err error) {
	g = Grant{Name: name, Token: NewToken(), TTL: l.opt.TTL, MaxHold: l.opt.MaxHold, Margin: l.opt.Margin}
	defer func() {
		if err != nil && unanswered {
			l.takeBack(ctx, keys, g.Token, l.linger())
		}
	}()
	fail := func(err error) (Grant, bool, error) {
		return g, unanswered, fmt.Errorf("acquire %q: %w", name, err)
	}

	// Only an answer of the server is certain to have changed nothing, or a connection that
	// could not be made. After anything else the grant may stand, so the same token asks.
	floor, first := l.floors.of(name), time.Now()
	for wait := replayAfter; ; wait *= 2 {
		g.Sent = l.keeper.Now()
		reply, left := l.send(ctx, g, keys, floor, waits)
		if left != nil {
			unanswered = true
			return fail(left)
		}
		a, err := readAcquired(reply.Reply)
		switch {
		case err == nil && a.yes && reply.short != nil:
			// The next one who asks shall not find it held by nobody, so this is not left to the background.
			l.sawGrant(name, a.fence, floor)
			if _, err := l.deleteOwn(context.WithoutCancel(ctx), keys, g.Token, l.opt.CallTimeout); err != nil {
				unanswered = true
			}
			return fail(reply.short)
		case err == nil && a.yes:
			// Counted from this request, not the first: it is the one that set the TTL.
			g.Fence = a.fence
			l.sawGrant(name, a.fence, floor)
			if late := l.keeper.Now().Sub(g.Sent) - g.trusted(); late >= 0 {
				unanswered = true
				return fail(fmt.Errorf("%w: the answer came %s after the end of what it granted", ErrUnavailable, late))
			}
			return g, unanswered, nil
		case err == nil:
			l.floors.saw(name, a.fence)
			return g, unanswered, &HeldError{Name: name, Holder: a.holder, Remaining: a.left, FencingToken: a.fence}
		case !isCertain(err):
			unanswered = true
		case isMoving(err): // nothing was granted, and a moment later it may be
		case !unanswered || !errors.Is(err, ErrUnavailable):
			return fail(err) // Redis was not reached, or it refused: nothing was granted
		}
		if time.Since(first)+wait > 2*l.opt.CallTimeout || !sleep(wait, ctx.Done(), l.closing.Done()) {
			switch {
			case ctx.Err() != nil:
				err = fmt.Errorf("%w (%s)", ended(ctx), err.Error()) // the caller's doing, not Redis'
			case l.closing.Err() != nil:
				err = ErrClosed
			}
			return fail(err)
		}
	}
}

// sentReply is the answer to a request, and why its grant does not count.
type sentReply struct {
	Reply
	short error
}

// send sends one request and waits for the answer, or until the caller leaves or the Locker is closed:
// then left says which.
func (l *Locker) send(ctx context.Context, g Grant, keys lockKeys, floor int64, waits bool) (reply sentReply, left error) {
	if !l.own {
		return l.sendBeside(ctx, g, keys, floor, waits)
	}
	q := l.requests.begin(g.Token)
	defer q.over()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, q.leave)
		defer stop()
	}
	reply = l.request(ctx, g, keys, floor, waits)
	switch {
	case reply.Err == nil:
		return reply, nil
	case ctx.Err() != nil:
		return reply, ended(ctx)
	case l.closing.Err() != nil:
		return reply, ErrClosed
	}
	return reply, nil
}

// sendBeside is send over a client that knows no way to leave: in a goroutine and with a deadline of
// its own. A connection that is closed under a request leaves nobody to hear what it was granted. What
// comes for a caller that left is taken back.
func (l *Locker) sendBeside(ctx context.Context, g Grant, keys lockKeys, floor int64, waits bool) (sentReply, error) {
	replies := make(chan sentReply)
	l.wg.Go(func() {
		reply := l.request(context.WithoutCancel(ctx), g, keys, floor, waits)
		select {
		case replies <- reply:
		case <-ctx.Done():
			l.takeBack(ctx, keys, g.Token, l.linger())
		case <-l.closing.Done():
			l.takeBack(ctx, keys, g.Token, l.linger())
		}
	})
	select {
	case reply := <-replies:
		return reply, nil
	case <-ctx.Done():
		return sentReply{}, ended(ctx)
	case <-l.closing.Done():
		return sentReply{}, ErrClosed
	}
}

func (l *Locker) request(ctx context.Context, g Grant, keys lockKeys, floor int64, waits bool) sentReply {
	ctx, cancel := l.within(ctx, min(l.opt.CallTimeout, g.trusted()))
	defer cancel()
	args := [...]any{g.Token.Reveal(), l.sent.ttl, floor, l.sent.fenceTTL, l.sent.holder, "1"}
	n := len(args)
	if !waits {
		n--
	}
	if l.opt.WaitReplicas == 0 { // without a list of one
		v, err := l.acquire.Run(ctx, l.client, []string{keys.lock, keys.fence}, args[:n]...)
		return sentReply{Reply: Reply{Value: v, Err: err}}
	}
	replies, short := l.acquire.RunConfirmed(ctx, l.client, l.opt.WaitReplicas,
		[]Call{{Keys: []string{keys.lock, keys.fence}, Args: args[:n]}})
	return sentReply{replies[0], short}
}

// linger is how long a request may be under way after its connection was given up.
func (l *Locker) linger() time.Duration { return 2 * l.opt.CallTimeout }

// takeBack compares and deletes, in the background, a grant that nobody uses or may know of.
// It does so until Redis has answered and linger has passed, since a request may arrive after
// the one that takes it back; or until the lease would have ended by itself. Of ctx only the
// values are used.
func (l *Locker) takeBack(ctx context.Context, keys lockKeys, token Token, linger time.Duration) {
	if l.taking.Add(1) > maxTaking {
		l.taking.Add(-1)
		return
	}
	ctx = context.WithoutCancel(ctx)
	start := l.keeper.Now()
	l.wg.Go(func() {
		defer l.taking.Add(-1)
		for wait := 25 * time.Millisecond; ; wait *= 2 {
			_, err := l.deleteOwn(ctx, keys, token, l.opt.CallTimeout)
			passed := l.keeper.Now().Sub(start)
			if passed-linger > l.opt.TTL || !errors.Is(err, ErrUnavailable) && passed >= linger {
				return
			}
			// While the request may arrive, the lock is not to be in anybody's way for long.
			if wait = min(wait, time.Second); passed < linger {
				wait = min(wait, 200*time.Millisecond)
			}
			if !sleep(wait, l.closing.Done(), nil) {
				return
			}
		}
	})
}

// sawGrant remembers a fencing token, and says so if nothing but this memory kept it rising.
func (l *Locker) sawGrant(name string, fence, floor int64) {
	l.floors.saw(name, fence)
	if floor > 0 && fence == floor+1 {
		l.log.Warn("redis clock is behind the last fencing token", "lock", name, "token", fence)
	}
}
