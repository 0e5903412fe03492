package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// journalLine is where systemd-journald cuts (LineMax= in journald.conf(5)).
const journalLine = 48 << 10

// logReader reads a daemon's log as a machine does: each line is a JSON object, or the log is broken.
type logReader struct {
	mu     sync.Mutex
	rest   []byte
	bytes  int64
	faults []string
	said   map[string]int    // records by message
	lines  map[string]string // what the log has of each job's output
	left   map[string]int64  // and what it has not, in bytes
}

func newLogReader() *logReader {
	return &logReader{said: map[string]int{}, lines: map[string]string{}, left: map[string]int64{}}
}

func (l *logReader) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += int64(len(p))
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte{'\n'})
		if !ok {
			break
		}
		l.read(line)
		l.rest = rest
	}
	l.rest = bytes.Clone(l.rest)
	return len(p), nil
}

func (l *logReader) read(line []byte) {
	fault := func(format string, args ...any) {
		if len(l.faults) < 20 {
			l.faults = append(l.faults, fmt.Sprintf(format, args...)+fmt.Sprintf(": %.300q", line))
		}
	}
	var r struct {
		Time           time.Time
		Level, Msg     string
		Job, Run, Line *string
		Continued      *bool
		Bytes          int64
	}
	if err := json.Unmarshal(line, &r); err != nil {
		fault("%v", err)
		return
	}
	if len(line) >= journalLine || !utf8.Valid(line) || bytes.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		fault("a record of %d bytes, or one with what cannot be seen", len(line))
	}
	if r.Time.IsZero() || r.Level == "" || strings.Contains(r.Msg, "forged") || bytes.HasPrefix(line, []byte(`{"level"`)) {
		fault("no record of rota's")
	}
	if r.Level == "ERROR" {
		fault("an error")
	}
	l.said[r.Msg]++
	switch {
	case r.Msg == "output left out of the log" && r.Job != nil:
		l.left[*r.Job] += r.Bytes
	case r.Msg != "output":
	case r.Job == nil || r.Run == nil || r.Line == nil || r.Continued == nil:
		fault("output of nobody")
	case *r.Job == "flood":
		l.lines[*r.Job] = "" // too much
	default:
		l.lines[*r.Job] += *r.Line
		if !*r.Continued {
			l.lines[*r.Job] += "\n"
		}
	}
}

// hostile is what a job prints that would like to be something else: control characters, escape
// sequences, half of a character, records of a log.
const hostile = "nul \x00 bell \x07 del \x7f\n" +
	"\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m\n" +
	"not utf-8 \xff\xfe\xc3( \xe2\x82 \xed\xa0\x80 and \u202eturned\n" +
	`{"time":"2026-11-29T02:00:00Z","level":"ERROR","msg":"forged"}` + "\n" +
	`","level":"ERROR","msg":"forged` + "\n" +
	"<3>forged\nback\rforged\u2028forged\u0085forged\n" +
	"no end"

// Three jobs print what no job should: two gigabytes, a line of ten megabytes, and whatever breaks a
// log. The daemon's memory stays small, its log is a valid one, and rota output has the beginning and
// the end of each, as the job wrote them (E07).
func TestFleet_OutputOfEveryKind(t *testing.T) {
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	log := newLogReader()
	f.sink = log
	evil := filepath.Join(f.dir, "evil")
	if err := os.WriteFile(evil, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	table := "[history]\nkeep = 1000\n[jobs.quick]\nschedule = \"* * * * * *\"\nshell = 'echo alive'\n"
	for job, script := range map[string]string{
		"flood": `yes | head -c 2000000000`,
		"line":  `echo beginning; head -c 10000000 /dev/zero | tr "\0" x; echo; echo end`,
		"evil":  "cat " + evil,
	} {
		begun := filepath.Join(f.dir, "begun-"+job) // the next ticks find it, and print nothing
		table += fmt.Sprintf("[jobs.%s]\nschedule = \"* * * * * *\"\nshell = '''[ -e %s ] && exit 0\n: > %s\n%s\n%s'''\n",
			job, begun, begun, f.markCommand(), script)
	}
	d := f.start("a", s.Addr(), table)
	before := memoryKiB(t, d.cmd.Process.Pid, "VmRSS")
	begun := time.Now()
	first := map[string]ledger.Entry{}
	eventually(t, 4*time.Minute, func() error {
		for _, job := range []string{"flood", "line", "evil"} {
			for _, m := range f.marks() {
				if m.job != job {
					continue
				}
				e, err := f.led.Run(t.Context(), m.run)
				if err != nil {
					return fmt.Errorf("%s: %w", job, err)
				}
				if e.Outcome == ledger.OutcomeRunning {
					return fmt.Errorf("%s goes on", job)
				}
				first[job] = e
			}
			if first[job].Run == "" {
				return fmt.Errorf("%s did not begin", job)
			}
		}
		return nil
	})
	t.Logf("two gigabytes took %s", time.Since(begun).Round(time.Millisecond))
	grown := memoryKiB(t, d.cmd.Process.Pid, "VmHWM") - before
	if most := 64 << 10; grown > most && raceFlag != "-race" { // the race detector takes memory of its own
		t.Errorf("the daemon grew by %d KiB, want at most %d", grown, most)
	}
	for job, e := range first {
		if e.Outcome != "succeeded" {
			t.Errorf("%s: %s (%s), want succeeded", job, e.Outcome, e.Reason)
		}
	}
	config := filepath.Join(f.dir, "a.toml")
	const kept = 16 << 10
	long := "beginning\n" + strings.Repeat("x", 10_000_000) + "\nend\n"
	for job, want := range map[string]string{
		"evil": hostile,
		"line": cut(long, kept),
		"flood": strings.Repeat("y\n", kept/8) + fmt.Sprintf("[... %d bytes left out ...]\n", 2_000_000_000-kept) +
			strings.Repeat("y\n", kept*3/8),
	} {
		if got := rotaOutput(t, config, first[job].Run); got != want {
			t.Errorf("%s: rota output has %d bytes, %.100q … %.100q, want %d, %.100q", job, len(got), got, got[max(0, len(got)-100):], len(want), want)
		}
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}

	log.mu.Lock()
	defer log.mu.Unlock()
	for _, fault := range log.faults {
		t.Error(fault)
	}
	if len(log.rest) > 0 || log.said["daemon stopped"] != 1 || log.said["run ended"] == 0 {
		t.Errorf("the log ends with %.100q, want whole records, and that the daemon stopped", log.rest)
	}
	// What is not UTF-8 is replaced byte by byte, as JSON must.
	seen := ""
	for _, r := range hostile + "\n" {
		seen += string(r)
	}
	if log.lines["evil"] != seen {
		t.Errorf("the log has of evil\n%q\nwant\n%q", log.lines["evil"], seen)
	}
	if log.lines["line"] != long {
		t.Errorf("the log has %d bytes of the long line, want %d, whole", len(log.lines["line"]), len(long))
	}
	if strings.Count(log.lines["quick"], "alive\n") < 2 {
		t.Errorf("the other job printed %q meanwhile, want it to go on", log.lines["quick"])
	}
	if left := log.left["flood"]; left < 1_900_000_000 || left >= 2_000_000_000 || log.left["line"] > 0 || log.left["evil"] > 0 {
		t.Errorf("left out of the log: %v, want most of the flood, and nothing else", log.left)
	}
	if log.bytes > 200<<20 {
		t.Errorf("the log has %d bytes, want at most 64 MiB of the flood and the rest", log.bytes)
	}
	t.Logf("the daemon grew by %d KiB, its log has %d bytes", grown, log.bytes)
}

// cut is what is kept of a text: the first quarter and the last three.
func cut(text string, limit int) string {
	head, tail := text[:limit/4], text[len(text)-limit*3/4:]
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + fmt.Sprintf("[... %d bytes left out ...]\n", len(text)-limit) + tail
}

// rotaOutput is what `rota output` prints.
func rotaOutput(t *testing.T, config, run string) string {
	t.Helper()
	bin, err := rota()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), bin, "output", "-c", config, run)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("rota output %s: %v, stderr %q", run, err, stderr.String())
	}
	return stdout.String()
}

// memoryKiB reads a line of a process' status (proc_pid_status(5)).
func memoryKiB(t *testing.T, pid int, name string) (kib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kib
}
