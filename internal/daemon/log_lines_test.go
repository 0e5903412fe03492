package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"rota/jobs"
)

// journalLine is where journald cuts: LineMax= in journald.conf(5).
const journalLine = 48 << 10

// hostile are texts as jobs print them and servers answer, by accident or not.
func hostile() map[string]string {
	return map[string]string{
		"nothing":                 "",
		"NUL":                     "a\x00b",
		"colours":                 "\x1b[31mred\x1b[0m",
		"colours and blanks":      "\x1b[31m a red\nline \x1b[0m",
		"title of the window":     "\x1b]0;forged\x07",
		"an open sequence":        "\x1b[",
		"an escape, spelt":        `a\x1b[31mred`,
		"an escape, spelt twice":  `a \\x1b[31m "red"`,
		"a second line":           "a\nlevel=ERROR msg=forged",
		"a line of JSON":          "a\n" + `{"level":"ERROR","msg":"forged"}` + "\n",
		"JSON":                    `{"level":"ERROR","msg":"forged"}`,
		"end of the string":       `","level":"ERROR","x":"`,
		"end of the value":        `" level=ERROR msg="forged`,
		"a priority":              "\n<3>forged",
		"CR":                      "a\rforged",
		"CR LF":                   "a\r\nforged\r\n",
		"back and forth":          "a\b\bforged\v\f\t",
		"DEL":                     "a\x7fb",
		"C1":                      "a\u0085b\u009b31mred\u009d0;forged\u009c",
		"line separators":         "a\u2028b\u2029c",
		"direction":               "a\u202eb\u2066c\u200fd",
		"marks and blanks":        "\ufeffa\u00a0b\u200bc\u3000",
		"outside the first plane": "a\U0001F600b\U000E0041c\U0010FFFFd",
		"not UTF-8":               "a\xff\xfe\xc3(\xe2\x82\xed\xa0\x80b",
		"the replacement":         "a\ufffdb",
		"Latin-1":                 "caf\xe9",
		"a long line":             strings.Repeat("x", journalLine),
		"a long line of NUL":      strings.Repeat("\x00", journalLine),
		"a long line of quotes":   strings.Repeat(`"`, journalLine),
		"a long line of escapes":  strings.Repeat("\x1b[31m", journalLine/5),
		"a long line of nothing":  strings.Repeat("\U000E0041", journalLine/4),
		"a long line of Latin-1":  strings.Repeat("\xe9", journalLine),
	}
}

// formats are the handlers and how a value is read back from a record.
func formats() []string { return []string{"json", "text", "journal", "tint", "tint without colours"} }

// newTestHandler makes the handler of a format as NewLogger does.
func newTestHandler(t *testing.T, format string, w io.Writer) slog.Handler {
	t.Helper()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	format, plain := strings.CutSuffix(format, " without colours")
	if plain {
		t.Setenv("NO_COLOR", "1")
	}
	return newHandler(format, slog.LevelInfo, w)
}

// writes keeps each write, as a pipe to journald would see it.
type writes struct{ all []string }

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, string(b))
	return len(b), nil
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// checkRecord holds what one write of a handler must be, whatever was logged.
func checkRecord(t *testing.T, format, record string) {
	t.Helper()
	body, ended := strings.CutSuffix(record, "\n")
	if !ended {
		t.Errorf("%s: %.300q does not end its line", format, record)
	}
	if len(record) >= journalLine {
		t.Errorf("%s: a record of %d bytes, journald cuts at %d", format, len(record), journalLine)
	}
	if !utf8.ValidString(body) {
		t.Errorf("%s: %.300q is not UTF-8", format, record)
	}
	if format == "tint" {
		body = sgr.ReplaceAllString(body, "") // its own; those of values are looked for by checkColours
	}
	for _, r := range body {
		if !unicode.IsPrint(r) {
			t.Errorf("%s: %.300q holds %U as it is", format, record, r)
			break
		}
	}
	switch {
	case format == "json":
		var got struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Level != "INFO" || strings.HasPrefix(got.Msg, "forged") {
			t.Errorf("json: %.300q = %v, %+v, want a record of level INFO", record, err, got)
		}
	case format == "journal" && !strings.HasPrefix(body, "<6>level=INFO msg="):
		t.Errorf("journal: %.300q does not begin with the priority of INFO", record)
	}
}

// checkColours holds that a record of tint has the sequences of one with a harmless value.
func checkColours(t *testing.T, record, harmless string) {
	t.Helper()
	got, want := sgr.FindAllString(record, -1), sgr.FindAllString(harmless, -1)
	if !slices.Equal(got, want) || strings.Count(record, "\x1b") != len(want) {
		t.Errorf("tint: %.300q has the sequences %q, want %q", record, got, want)
	}
}

// panics is a value whose text cannot be had.
type panics struct{ text string }

func (p *panics) Error() string { panic("no error: " + p.text) }

type marshals struct{ text string }

func (m marshals) MarshalText() ([]byte, error) { return []byte(m.text), nil }

// Every way in which a text gets into a record.
func TestNewHandler_OneValidLineWhateverAValueHolds(t *testing.T) {
	ways := map[string]func(*slog.Logger, string){
		"text":           func(l *slog.Logger, s string) { l.Info("m", "k", s) },
		"output line":    func(l *slog.Logger, s string) { l.Info("m", "line", s, "continued", false) },
		"error":          func(l *slog.Logger, s string) { l.Info("m", "err", errors.New(s)) },
		"joined error":   func(l *slog.Logger, s string) { l.Info("m", "err", errors.Join(errors.New(s), io.EOF)) },
		"bytes":          func(l *slog.Logger, s string) { l.Info("m", "k", []byte(s)) },
		"list":           func(l *slog.Logger, s string) { l.Info("m", "k", []string{s, s}) },
		"struct":         func(l *slog.Logger, s string) { l.Info("m", "k", struct{ A, B string }{s, "b"}) },
		"text marshaler": func(l *slog.Logger, s string) { l.Info("m", "k", marshals{s}) },
		"panic":          func(l *slog.Logger, s string) { l.Info("m", "err", &panics{s}) },
		"nil panic":      func(l *slog.Logger, _ string) { l.Info("m", "err", (*panics)(nil)) },
		"in a group":     func(l *slog.Logger, s string) { l.Info("m", slog.Group("g", "k", s)) },
		"below a group":  func(l *slog.Logger, s string) { l.WithGroup("g").Info("m", slog.MessageKey, s) },
		"of the logger":  func(l *slog.Logger, s string) { l.With("k", s).Info("m") },
		"message": func(l *slog.Logger, s string) {
			_ = l.Handler().Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, s, 0))
		},
		"like a message": func(l *slog.Logger, s string) { l.Info("m", slog.MessageKey, s) },
	}
	for _, format := range formats() {
		t.Run(format, func(t *testing.T) {
			for way, do := range ways {
				harmless := &writes{}
				do(slog.New(newTestHandler(t, format, harmless)), "x")
				for name, value := range hostile() {
					out := &writes{}
					do(slog.New(newTestHandler(t, format, out)), value)
					if len(out.all) == 0 || len(out.all) > 1 && way != "output line" {
						t.Errorf("%s, %s: %d writes, want one", way, name, len(out.all))
					}
					for _, record := range out.all {
						checkRecord(t, format, record)
						if format == "tint" {
							checkColours(t, record, harmless.all[0])
						}
					}
					if t.Failed() {
						t.Fatalf("that was %s as %s", name, way)
					}
				}
			}
		})
	}
}

// Nothing of what a job prints is lost, also where one line has to become several records. What is
// not UTF-8 is replaced, as JSON must.
func TestNewHandler_OutputArrivesWhole(t *testing.T) {
	for name, text := range hostile() {
		out := &writes{}
		log := slog.New(newTestHandler(t, "json", out))
		lines := jobs.NewLines(func(line string, continued bool) {
			log.Info("output", "line", line, "continued", continued)
		})
		if _, err := io.WriteString(lines, text); err != nil {
			t.Fatal(err)
		}
		if err := lines.Close(); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, record := range out.all {
			var r struct {
				Line      string
				Continued bool
			}
			if err := json.Unmarshal([]byte(record), &r); err != nil {
				t.Fatalf("%s: %.300q: %v", name, record, err)
			}
			got.WriteString(r.Line)
			if !r.Continued {
				got.WriteByte('\n')
			}
		}
		want := strings.ReplaceAll(text, "\r\n", "\n")
		if want != "" {
			want = strings.TrimSuffix(want, "\n") + "\n"
		}
		replaced := ""
		for _, r := range want { // byte by byte where it is not UTF-8
			replaced += string(r)
		}
		if got.String() != replaced {
			t.Errorf("%s: the records say %.200q, want %.200q", name, got.String(), replaced)
		}
	}
}

// The formats that people read say what was meant, not just something harmless.
func TestNewHandler_ValuesReadBack(t *testing.T) {
	for name, text := range hostile() {
		if len(text) > 1000 {
			continue
		}
		for _, format := range []string{"text", "journal", "tint", "tint without colours"} {
			out := &writes{}
			slog.New(newTestHandler(t, format, out)).Info("m", "k", text, "end", 1)
			record := sgr.ReplaceAllString(out.all[0], "")
			_, rest, _ := strings.Cut(record, " k=")
			got, _, _ := strings.Cut(rest, " end=1")
			if strings.HasPrefix(got, `"`) {
				s, err := strconv.Unquote(got)
				if err != nil {
					t.Errorf("%s, %s: %q: %v", format, name, got, err)
				}
				got = s
			}
			if got == `a\u007fb` {
				got = "a\x7fb" // as visible has it
			}
			if got != text {
				t.Errorf("%s: %s reads back as %q, want %q", format, name, got, text)
			}
		}
	}
}

func TestNewHandler_LongValuesAreCut(t *testing.T) {
	out := &writes{}
	slog.New(newTestHandler(t, "json", out)).Info("m", "err", errors.New("short"), "k", strings.Repeat("é", 10_000))
	var got struct{ Err, K string }
	if err := json.Unmarshal([]byte(out.all[0]), &got); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("é", maxValue/2) + fmt.Sprintf("… and %d bytes more", 20_000-maxValue); got.K != want || got.Err != "short" {
		t.Errorf("err = %q, k = %.20q…%.40q, want both, the second cut", got.Err, got.K, got.K[max(0, len(got.K)-40):])
	}
}

// What the handlers say of levels, times and durations.
func TestNewHandler_Forms(t *testing.T) {
	at := time.Date(2026, 3, 8, 2, 30, 0, 123456789, time.FixedZone("", 3600))
	for format, want := range map[string]map[slog.Level]string{
		"json": {
			slog.LevelInfo: `{"time":"2026-03-08T01:30:00.123456789Z","level":"INFO","msg":"run ended","took":"1m30s","tick":"2026-03-08T01:30:00.123456789Z","none":"","err":"EOF"}`,
		},
		"text": {
			slog.LevelWarn: `time=2026-03-08T01:30:00.123Z level=WARN msg="run ended" took=1m30s tick=2026-03-08T01:30:00.123Z none="" err=EOF`,
		},
		"journal": {
			slog.LevelDebug: "",
			slog.LevelInfo:  `<6>level=INFO msg="run ended" took=1m30s tick=2026-03-08T01:30:00.123Z none="" err=EOF`,
			slog.LevelWarn:  `<4>level=WARN msg="run ended" took=1m30s tick=2026-03-08T01:30:00.123Z none="" err=EOF`,
			slog.LevelError: `<3>level=ERROR msg="run ended" took=1m30s tick=2026-03-08T01:30:00.123Z none="" err=EOF`,
		},
		"tint without colours": {
			slog.LevelError: `01:30:00.123 ERR run ended took=1m30s tick=2026-03-08T01:30:00.123Z none="" err=EOF`,
		},
	} {
		for level, want := range want {
			out := &writes{}
			h := newTestHandler(t, format, out)
			r := slog.NewRecord(at, level, "run ended", 0)
			r.Add("took", 90*time.Second, "tick", at, "none", time.Time{}, "err", io.EOF)
			if h.Enabled(t.Context(), level) {
				if err := h.Handle(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.TrimSuffix(strings.Join(out.all, "|"), "\n"); got != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", format, level, got, want)
			}
		}
	}
	out := &writes{}
	debug := slog.New(newHandler("journal", slog.LevelDebug, out))
	debug.Debug("m")
	debug.With("a", 1).WithGroup("g").Debug("m", "b", 2)
	if want := []string{"<7>level=DEBUG msg=m\n", "<7>level=DEBUG msg=m a=1 g.b=2\n"}; !slices.Equal(out.all, want) {
		t.Errorf("journal at debug = %q, want %q", out.all, want)
	}
}

// no-color.org and terminals without colours.
func TestNewHandler_Colours(t *testing.T) {
	for _, tc := range []struct {
		noColor, term string
		want          bool
	}{
		{"", "xterm-256color", true},
		{"1", "xterm-256color", false},
		{"0", "xterm-256color", false}, // its value does not matter
		{"", "dumb", false},
	} {
		t.Setenv("NO_COLOR", tc.noColor)
		t.Setenv("TERM", tc.term)
		var out bytes.Buffer
		slog.New(newHandler("tint", slog.LevelInfo, &out)).Warn("m", "err", io.EOF)
		if got := strings.Contains(out.String(), "\x1b["); got != tc.want {
			t.Errorf("NO_COLOR=%q TERM=%q: %q has colours: %t, want %t", tc.noColor, tc.term, out.String(), got, tc.want)
		}
	}
}

// Records of many goroutines do not mix, and each has the priority of its own level.
func TestJournal_Concurrent(t *testing.T) {
	out := &writes{} // without a lock of its own: the handler must have one
	log := slog.New(newHandler("journal", slog.LevelDebug, out))
	const each = 200
	done := make(chan struct{})
	for level, n := range map[slog.Level]int{slog.LevelDebug: 7, slog.LevelInfo: 6, slog.LevelWarn: 4, slog.LevelError: 3} {
		go func() {
			defer func() { done <- struct{}{} }()
			log := log.With("priority", n)
			for range each {
				log.Log(t.Context(), level, "m")
			}
		}()
	}
	for range 4 {
		<-done
	}
	if len(out.all) != 4*each {
		t.Errorf("%d records, want %d", len(out.all), 4*each)
	}
	for _, record := range out.all {
		if !strings.HasSuffix(record, "priority="+record[1:2]+"\n") {
			t.Fatalf("record %q has the priority of another", record)
		}
	}
}
