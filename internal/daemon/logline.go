package daemon

import (
	"bytes"
	"context"
	"encoding"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What a record may take. journald cuts lines at 48 KiB (LineMax= in journald.conf(5)), and neither
// half of a JSON record is one. So there is room for one long line of a job's output, or for
// several other values; what the daemon itself says is far shorter.
const (
	maxLine  = 40 << 10
	maxValue = 4 << 10
)

// The attributes of a line that a job printed, as the scheduler logs it.
const (
	lineKey      = "line"
	continuedKey = "continued"
)

// pieces makes several records of one whose output line takes too much room. Package jobs cuts
// lines as well, and cannot know how long one gets when it is escaped.
type pieces struct{ slog.Handler }

func (p pieces) Handle(ctx context.Context, r slog.Record) error {
	line := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == lineKey && a.Value.Kind() == slog.KindString {
			line = a.Value.String()
		}
		return line == ""
	})
	n := fit(line, maxLine)
	if n == len(line) {
		return p.Handler.Handle(ctx, r)
	}
	for rest := line; rest != ""; n = fit(rest, maxLine) {
		piece := rest[:n]
		rest = rest[n:]
		part := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.Attrs(func(a slog.Attr) bool {
			switch {
			case a.Key == lineKey:
				a.Value = slog.StringValue(piece)
			case a.Key == continuedKey && rest != "":
				a.Value = slog.BoolValue(true)
			}
			part.AddAttrs(a)
			return true
		})
		if err := p.Handler.Handle(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (p pieces) WithAttrs(attrs []slog.Attr) slog.Handler { return pieces{p.Handler.WithAttrs(attrs)} }

func (p pieces) WithGroup(name string) slog.Handler { return pieces{p.Handler.WithGroup(name)} }

// fit is how many bytes of s, in whole characters, take at most room bytes in a record of any
// format.
func fit(s string, room int) int {
	if len(s) <= room/longestEscape {
		return len(s)
	}
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			room -= 2
		case r == utf8.RuneError || !unicode.IsPrint(r):
			room -= longestEscape
		default:
			room -= utf8.RuneLen(r)
		}
		if room < 0 {
			return i
		}
	}
	return len(s)
}

// longestEscape is that of a character outside of Unicode's first plane: \U0010ffff, or in JSON two
// surrogates.
const longestEscape = len(`\udbff\udfff`)

// shortened is s, or as much of it as a value may take.
func shortened(s string) string {
	if n := fit(s, maxValue); n < len(s) {
		return fmt.Sprintf("%s… and %d bytes more", s[:n], len(s)-n)
	}
	return s
}

// said is the text of a value as [slog.TextHandler] has it. A value that panics, as most do that
// are nil pointers, must not end the daemon.
func said(v any) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("!PANIC: %v", r)
		}
	}()
	switch v := v.(type) {
	case error:
		return v.Error()
	case []byte:
		return string(v)
	case encoding.TextMarshaler:
		if b, err := v.MarshalText(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprintf("%+v", v)
}

// harmless tells whether tint writes s as it is.
func harmless(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) &&
		!strings.Contains(s, `\x1b`)
}

// escaped is s by Go's rules without the quotes. It spells the escape character in a way that tint
// does not take for one.
func escaped(s string) string {
	s = strings.ReplaceAll(strconv.Quote(s), `\x1b`, `\u001b`)
	return s[1 : len(s)-1]
}

// visible writes what the handlers leave as it is and nobody can see: DEL, the control characters
// of ISO 6429's second set, which a terminal obeys as it does escape sequences, and those that turn
// the direction of text. The form is JSON's; a record of text is the same to people.
type visible struct{ w io.Writer }

func (v visible) Write(b []byte) (int, error) {
	hidden := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	out := b
	if bytes.ContainsFunc(b, hidden) {
		out = make([]byte, 0, len(b)+longestEscape)
		for _, r := range string(b) {
			switch {
			case !hidden(r):
				out = utf8.AppendRune(out, r)
			case r > 0xffff:
				high, low := utf16.EncodeRune(r)
				out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
			default:
				out = fmt.Appendf(out, `\u%04x`, r)
			}
		}
	}
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
