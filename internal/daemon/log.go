package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"rota/internal/config"
)

// NewLogger makes the logger that the config asks for: colours on a terminal and JSON
// elsewhere, unless it says which. The time is UTC, as all of Rota's are; it is left out for the
// journal, which has its own. NO_COLOR and a dumb terminal mean no colours.
//
// Whatever a value holds, a record is one line, of less than the 48 KiB at which journald would
// make two of it, without a character that a terminal acts on: a job can print what it likes and
// forge no record. An output line that would be longer comes as several records, all but the last
// with continued=true; other values are cut.
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
	w = visible{w}
	opt := &slog.HandlerOptions{Level: level, ReplaceAttr: readable}
	var h slog.Handler
	switch format {
	case "tint":
		// no-color.org: present and not empty.
		plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
		h = tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "15:04:05.000", NoColor: plain, ReplaceAttr: onTerminal})
	case "text":
		h = slog.NewTextHandler(w, opt)
	case "journal":
		h = newJournal(w, opt)
	default:
		h = slog.NewJSONHandler(w, opt)
	}
	return pieces{h}
}

// readable writes durations as people do, not in nanoseconds, times in UTC and errors as what they
// say, and nothing at greater length than a record has room for.
func readable(_ []string, a slog.Attr) slog.Attr {
	switch kind := a.Value.Kind(); {
	case kind == slog.KindDuration:
		a.Value = slog.StringValue(a.Value.Duration().String())
	case kind == slog.KindTime:
		if t := a.Value.Time(); t.IsZero() {
			a.Value = slog.StringValue("")
		} else {
			a.Value = slog.TimeValue(t.UTC())
		}
	case kind == slog.KindAny:
		text := said(a.Value.Any())
		if _, isError := a.Value.Any().(error); isError || fit(text, maxValue) < len(text) {
			a.Value = slog.StringValue(text)
		}
	}
	if a.Value.Kind() == slog.KindString && a.Key != lineKey { // see pieces
		a.Value = slog.StringValue(shortened(a.Value.String()))
	}
	return a
}

// onTerminal is readable, and besides leaves tint no text that it would not write as it is. With
// colours, tint passes escape sequences on, and makes some of the four characters \x1b; without,
// it drops what follows a byte that is not UTF-8.
func onTerminal(groups []string, a slog.Attr) slog.Attr {
	a = readable(groups, a)
	if v := a.Value; v.Kind() == slog.KindAny {
		if _, ok := v.Any().(slog.Level); ok {
			return a
		}
		a.Value = slog.StringValue(shortened(said(v.Any())))
	}
	switch {
	case a.Value.Kind() != slog.KindString || harmless(a.Value.String()):
	case a.Key == slog.MessageKey && len(groups) == 0:
		a.Value = slog.StringValue(escaped(a.Value.String())) // the one text that tint does not quote
	default:
		a.Value = slog.AnyValue([]byte(a.Value.String())) // which it quotes by Go's rules
	}
	return a
}

// journal writes the level in front of each line as journald reads it from a service's
// standard error (sd-daemon(3)); the journal has its own time.
type journal struct {
	slog.Handler // writes to out
	out          *prefixed
	mu           *sync.Mutex // from the choice of the prefix until it is written
}

func newJournal(w io.Writer, opt *slog.HandlerOptions) *journal {
	out := &prefixed{w: w}
	return &journal{Handler: slog.NewTextHandler(out, opt), out: out, mu: new(sync.Mutex)}
}

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
	j.mu.Lock()
	defer j.mu.Unlock()
	j.out.prefix = fmt.Sprintf("<%d>", priority)
	return j.Handler.Handle(ctx, r)
}

func (j *journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journal{j.Handler.WithAttrs(attrs), j.out, j.mu}
}

func (j *journal) WithGroup(name string) slog.Handler {
	return &journal{j.Handler.WithGroup(name), j.out, j.mu}
}

// prefixed puts a text in front of each write. A handler writes a record at once.
type prefixed struct {
	w      io.Writer
	prefix string
}

func (p *prefixed) Write(b []byte) (int, error) {
	if _, err := p.w.Write(append([]byte(p.prefix), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}
