package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"rota/locking"
)

//go:embed touch.lua
var touchBody string

// Touch keeps the keys of jobs from expiring for as long as expire says, and drops what is older
// than maxAge of their history, in one pipeline. Of each job the newest run and the newest of what
// nobody ran stay, whatever their age. Zero and less drop nothing.
//
// It is for once a day: what is a day older than maxAge may still be there. Of a long history that
// is shortened it drops a part at a time. A foreign key of one job is left to the job's next claim,
// which names it. It may be repeated after an error.
func (l *Ledger) Touch(ctx context.Context, jobs []string, maxAge time.Duration, expire func(job string) time.Duration) error {
	if maxAge <= 0 {
		maxAge = time.Duration(1<<63 - 1)
	}
	calls := make([]locking.Call, len(jobs))
	for i, job := range jobs {
		calls[i] = locking.Call{
			Keys: []string{l.keys.record(job)},
			Args: []any{l.keys.prefix, job, l.kept(expire(job)).Milliseconds(), maxAge.Milliseconds()},
		}
	}
	if len(calls) == 0 {
		return nil
	}
	for i, r := range l.touch.RunAll(ctx, l.client, calls) {
		if r.Err != nil && !errors.Is(r.Err, locking.ErrConflict) {
			return fmt.Errorf("touch %q: %w", jobs[i], r.Err)
		}
	}
	return nil
}
