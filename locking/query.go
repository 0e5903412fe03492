package locking

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

//go:embed query.lua
var queryBody string

// State is what Redis knows of a lock at the moment it is asked.
type State struct {
	Held bool
	// FencingToken is that of the lease which is held; of a free lock the highest that was
	// granted, or 0 if Redis remembers none.
	FencingToken int64
	Remaining    time.Duration // until the lease ends by itself if it is not renewed
	Holder       string        // [Options].Holder of the one who holds it
}

// Query asks Redis who holds the lock name, by one script that writes nothing. What it
// returns may be history when it arrives. The errors are those of [Locker.TryAcquire]
// without [ErrHeld].
func (l *Locker) Query(ctx context.Context, name string) (State, error) {
	keys, err := l.names.keys(name)
	if err != nil {
		return State{}, err
	}
	if ctx.Err() != nil {
		return State{}, fmt.Errorf("query %q: %w", name, ended(ctx))
	}
	if err := l.enter(); err != nil {
		return State{}, err
	}
	defer l.wg.Done()
	call, cancel := context.WithTimeout(ctx, l.opt.CallTimeout)
	defer cancel()
	v, err := l.query.Run(call, l.client, []string{keys.lock, keys.fence})
	s, _, err := readState(Reply{Value: v, Err: err})
	if err != nil {
		if ctx.Err() != nil {
			err = ended(ctx)
		}
		return State{}, fmt.Errorf("query %q: %w", name, err)
	}
	l.floors.saw(name, s.FencingToken)
	return s, nil
}
