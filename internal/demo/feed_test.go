package demo

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rota/internal/config"
	"rota/internal/daemon"
)

func TestParseLine_ReadsADaemonsLog(t *testing.T) {
	tick := `"tick":"2026-11-29T12:00:01Z"`
	for _, tc := range []struct {
		name, line string
		want       event
		ok         bool
	}{
		{
			"a win",
			`{"time":"2026-11-29T12:00:01.004Z","level":"INFO","msg":"run started","job":"mail",` + tick +
				`,"run":"01JD","token":1795982428007135,"host":"web-2","lock":"mail","lag":"4ms","kind":"scheduled"}`,
			event{host: "web-2", kind: runStarted, job: "mail", tick: at(1), token: 1795982428007135, lag: 4 * time.Millisecond},
			true,
		},
		{
			"a lost claim",
			`{"level":"DEBUG","msg":"claim lost","job":"mail",` + tick + `,"reason":"decided already"}`,
			event{host: "web-2", kind: claimLost, job: "mail", tick: at(1)},
			true,
		},
		{
			"a skip",
			`{"level":"INFO","msg":"tick skipped","job":"report",` + tick + `,"holder":"web-1","since":"2026-11-29T12:00:00Z"}`,
			event{host: "web-2", kind: tickSkipped, job: "report", tick: at(1), holder: "web-1"},
			true,
		},
		{"what is about no tick", `{"level":"INFO","msg":"drain began","running":1}`, event{}, false},
		{"what is about no race", `{"level":"INFO","msg":"output","job":"mail",` + tick + `,"line":"hello"}`, event{}, false},
		{"a word of another kind", `{"msg":"run started","job":"mail","tick":7}`, event{}, false},
		{"what is no JSON", "rota: config: no such file", event{}, false},
		{"nothing", "", event{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := parseLine("web-2", tc.line); got != tc.want || ok != tc.ok {
				t.Errorf("parseLine(%s) = %+v, %t, want %+v, %t", tc.line, got, ok, tc.want, tc.ok)
			}
		})
	}
}

// The daemon's own logger writes durations and times in a form of its own; it is what the demo
// has to read.
func TestParseLine_ReadsTheDaemonsLogger(t *testing.T) {
	r, w, err := pipe(t)
	if err != nil {
		t.Fatal(err)
	}
	log := daemon.NewLogger(config.Log{Format: "json", Level: slog.LevelDebug}, w)
	log.Info("run started", "job", quickJob, "tick", at(1), "token", int64(7), "lag", 1500*time.Millisecond)
	w.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	want := event{host: "web-1", kind: runStarted, job: quickJob, tick: at(1), token: 7, lag: 1500 * time.Millisecond}
	if got, ok := parseLine("web-1", text.String()); !ok || got != want {
		t.Errorf("parseLine(%s) = %+v, %t, want %+v, true", text.String(), got, ok, want)
	}
}

// Nothing but these words ties the demo to the scheduler's log.
func TestKind_IsWhatTheSchedulerLogs(t *testing.T) {
	files, err := filepath.Glob("../../scheduler/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for _, k := range []kind{runStarted, runEnded, claimLost, tickLeft, tickSkipped, tickMissed} {
		if !strings.Contains(all.String(), strconv.Quote(string(k))) {
			t.Errorf("no %q in the %d files of scheduler", k, len(files))
		}
	}
}

func TestLines_CutsWhatIsCopied(t *testing.T) {
	q, h := newQueue(), &host{name: "web-1"}
	l := &lines{host: h, to: q}
	for _, part := range []string{"one\ntw", "o", "\n\nthree"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write(%q) = %d, %v, want %d, nil", part, n, err, len(part))
		}
	}
	var got []string
	for _, m := range q.take() {
		got = append(got, m.line)
	}
	if want := "one|two|"; strings.Join(got, "|") != want {
		t.Errorf("lines = %q, want %q, and the rest kept", strings.Join(got, "|"), want)
	}
	if string(l.rest) != "three" {
		t.Errorf("rest = %q, want %q", l.rest, "three")
	}
}

func TestQueue_NeverBlocks(t *testing.T) {
	q := newQueue()
	for range 1000 { // nobody reads
		q.put(message{line: "x"})
	}
	<-q.ready
	if got := len(q.take()); got != 1000 {
		t.Errorf("take = %d messages, want 1000", got)
	}
	select {
	case <-q.ready:
		t.Error("ready after everything was taken")
	default:
	}
}
