package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"rota/locking/fence"
)

// How long a daemon with too much to do is asked again: at first after askAgain, then after twice that.
const (
	askAgain     = 10 * time.Millisecond
	askAgainMost = 100 * time.Millisecond
)

// Write has the daemon at the socket write a guarded value in the name of the run that this process belongs
// to. A nil value stays as it is, and the token is raised. A token of 0 is the run's own; another than that
// is refused. It returns what the key holds then.
//
// Ctx should have a deadline: a daemon that is busy is asked until then. The error matches [ErrAway] if
// there is no daemon or no answer, [ErrRefused], [ErrLost], or what [fence.Redis.Write] says: with the
// words of the daemon.
func Write(ctx context.Context, path, key string, token int64, value []byte) (fence.Value, error) {
	if err := fence.CheckKey(key); err != nil {
		return fence.Value{}, err
	}
	if len(value) > fence.MaxValueBytes {
		return fence.Value{}, fmt.Errorf("%w value: %d bytes, at most %d are allowed", fence.ErrInvalid, len(value), fence.MaxValueBytes)
	}
	r := request{V: version, Op: opFence, Key: key, Token: token, Value: value}
	for wait := askAgain; ; wait = min(2*wait, askAgainMost) {
		v, err := ask(ctx, path, r)
		// A full backlog answers EAGAIN (connect(2)).
		if !errors.Is(err, errBusy) && !errors.Is(err, syscall.EAGAIN) {
			return v, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return v, fmt.Errorf("%w: %w", ErrAway, err)
		}
	}
}

// ask makes one request.
func ask(ctx context.Context, path string, r request) (fence.Value, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return fence.Value{}, fmt.Errorf("%w: %w", ErrAway, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	// Whoever is refused is told so before he has said anything, and may find nobody who listens: the
	// reply is there all the same.
	sent := writeLine(conn, r)
	var answer reply
	if err := readLine(conn, &answer); err != nil {
		return fence.Value{}, fmt.Errorf("%w: %w", ErrAway, errors.Join(sent, err))
	}
	if err := answer.err(r.Key); err != nil {
		return fence.Value{}, err
	}
	return fence.Value{Token: answer.Token, Data: answer.Value}, nil
}
