package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
)

//go:embed cancel.lua
var cancelBody string

// ErrEnded says that a run has ended already.
var ErrEnded = errors.New("ledger: the run has ended")

// Cancel asks for the end of a run, wherever it goes on. Its host hears of it within a second,
// or with the run's next renewal, and records who asked and why. It does not wait for the end.
// Asking again is the same; the host acts on what it heard first.
//
// The error matches [ErrNoRun] when the ledger does not know the run, or not any more, and
// [ErrEnded] when the run does not hold its lease any more, whether or not an outcome was
// recorded. It is a [*ByError] when by cannot be kept.
func (l *Ledger) Cancel(ctx context.Context, run string, by By) error {
	if err := by.Check(); err != nil {
		return err
	}
	v, err := l.cancel.Run(ctx, l.client, []string{l.keys.run(run)}, l.keys.prefix, "-", run, by.String())
	if err != nil {
		return fmt.Errorf("cancel %q: %w", run, err)
	}
	r := readReply("cancel", run, v, 2)
	switch answer := r.text(0); {
	case r.err != nil:
		return r.err
	case answer == "asked":
		return nil
	case answer == "ended":
		return ErrEnded
	case answer == "unknown":
		return ErrNoRun
	default:
		r.fail("reply is %q, which says nothing", answer)
		return r.err
	}
}
