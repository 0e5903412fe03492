package ledger

import (
	"context"
	"errors"
	"time"
)

// trips gives each of several round trips, one after the other, as long as ctx has left now: how
// many they are, and what the caller does in between, costs none of them its time. Once ctx is
// cancelled there are no more; a call that was written is not interrupted by that anyway.
func trips(ctx context.Context) func() (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	each := time.Until(deadline)
	return func() (context.Context, context.CancelFunc) {
		if !ok || errors.Is(ctx.Err(), context.Canceled) {
			return context.WithCancel(ctx)
		}
		return context.WithTimeout(context.WithoutCancel(ctx), each)
	}
}
