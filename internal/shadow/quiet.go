package shadow

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// quieted is a logger for the schedulers of many hosts: it passes their warnings on, each once for all
// of them, but for those that the live lines or the exchange tell. Nil: it says nothing.
func quieted(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(quiet{log.Handler(), &told{at: map[string]time.Time{}}})
}

// quietFor is how long a warning is not said again.
const quietFor = 10 * time.Second

type quiet struct {
	slog.Handler
	told *told
}

type told struct {
	mu sync.Mutex
	at map[string]time.Time // by what was said
}

// Enabled lets only warnings through.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}

// Handle passes on what nothing else tells.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "redis went away", "redis is still away", "tick missed", "run ended", "run lost", "host went away", "hosts have another table",
		"redis forgot everything":
		return nil
	}
	what := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "job" {
			what += " " + a.Value.String()
		}
		return true
	})
	q.told.mu.Lock()
	now := time.Now()
	again := now.Sub(q.told.at[what]) < quietFor
	if !again {
		q.told.at[what] = now
	}
	q.told.mu.Unlock()
	if again {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs keeps what was told common.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.told}
}

// WithGroup likewise.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name), q.told} }
