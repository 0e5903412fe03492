package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"rota/internal/config"
)

// NewLogger makes the logger that the config asks for: colours on a terminal and JSON
// elsewhere, unless it says which. The time is UTC, as all of Rota's are.
func NewLogger(c config.Log, w *os.File) *slog.Logger {
	format := c.Format
	if format == "auto" {
		format = "json"
		if term.IsTerminal(int(w.Fd())) {
			format = "tint"
		}
	}
	return slog.New(newHandler(format, c.Level, w))
}

func newHandler(format string, level slog.Level, w io.Writer) slog.Handler {
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	switch format {
	case "tint":
		return tint.NewHandler(w, &tint.Options{
			Level: level, TimeFormat: "15:04:05.000", NoColor: os.Getenv("NO_COLOR") != "", ReplaceAttr: readable,
		})
	case "text":
		return slog.NewTextHandler(w, opt)
	case "journal":
		return &journal{w: w, opt: opt}
	}
	return slog.NewJSONHandler(w, opt)
}

// readable writes durations as people do, not in nanoseconds, and times in UTC.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindTime:
		if t := a.Value.Time(); t.IsZero() {
			a.Value = slog.StringValue("")
		} else {
			a.Value = slog.TimeValue(t.UTC())
		}
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
	}
	return a
}

// journal writes the level in front of each line as journald reads it from a service's
// standard error (sd-daemon(3)); the journal has its own time.
type journal struct {
	w    io.Writer
	opt  *slog.HandlerOptions
	with []func(slog.Handler) slog.Handler
}

func (j *journal) Enabled(_ context.Context, l slog.Level) bool { return l >= j.opt.Level.Level() }

func (j *journal) Handle(ctx context.Context, r slog.Record) error {
	priority := 7
	switch {
	case r.Level >= slog.LevelError:
		priority = 3
	case r.Level >= slog.LevelWarn:
		priority = 4
	case r.Level >= slog.LevelInfo:
		priority = 6
	}
	r.Time = time.Time{}
	var h slog.Handler = slog.NewTextHandler(prefixed{j.w, fmt.Sprintf("<%d>", priority)}, j.opt)
	for _, with := range j.with {
		h = with(h)
	}
	return h.Handle(ctx, r)
}

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return j.plus(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (j *journal) WithGroup(name string) slog.Handler {
	return j.plus(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (j *journal) plus(f func(slog.Handler) slog.Handler) slog.Handler {
	next := *j
	next.with = append(next.with[:len(next.with):len(next.with)], f)
	return &next
}

// prefixed puts a text in front of each write. A handler writes a record at once.
type prefixed struct {
	w      io.Writer
	prefix string
}

func (p prefixed) Write(b []byte) (int, error) {
	if _, err := p.w.Write(append([]byte(p.prefix), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
