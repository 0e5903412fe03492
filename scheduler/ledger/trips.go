package ledger

import (
	"context"
	"errors"
	"time"
)

// trips gives each of several round trips, one after the other, as long as the caller's context had
// left at first: how many they are, and what is done in between, costs none of them its time.
type trips struct {
	each    time.Duration
	bounded bool
}

func tripsOf(ctx context.Context) trips {
	deadline, ok := ctx.Deadline()
	return trips{each: time.Until(deadline), bounded: ok}
}

// begin is for the next trip, of the same context. Once that is cancelled there are no more; a call
// that was written is not interrupted by that anyway.
func (t trips) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	if !t.bounded || errors.Is(ctx.Err(), context.Canceled) {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), t.each)
}
