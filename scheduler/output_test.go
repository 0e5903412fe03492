package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// printed is what a log has of an output: its lines, and how much was left out before each.
type printed struct {
	lines []string
	left  map[int]int64 // bytes, by the index of the line that came next
	bytes int           // of records
}

func readOutput(t *testing.T, log *bytes.Buffer) printed {
	t.Helper()
	p := printed{left: map[int]int64{}, bytes: log.Len()}
	whole := true
	for record := range bytes.Lines(log.Bytes()) {
		var r struct {
			Msg, Line string
			Continued bool
			Bytes     int64
		}
		if err := json.Unmarshal(record, &r); err != nil {
			t.Fatalf("%.300q: %v", record, err)
		}
		switch {
		case r.Msg != "output":
			p.left[len(p.lines)] += r.Bytes
			whole = true
		case whole:
			p.lines = append(p.lines, r.Line)
			whole = !r.Continued
		default:
			p.lines[len(p.lines)-1] += r.Line
			whole = !r.Continued
		}
	}
	return p
}

func (p *printed) allLeft() (n int64) {
	for _, b := range p.left {
		n += b
	}
	return n
}

func newTestLog(level slog.Level, most logRoom) (*outputLog, *bytes.Buffer) {
	var b bytes.Buffer
	h := slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: level})
	return newOutputLog(slog.New(h).With("job", "j", "tick", time.Now(), "run", "01KB6XFYG8R3M0Q2V5T7W9XZAB", "token", 1795968430725800), most), &b
}

// Twenty thousand lines in a burst, and one of ten megabytes, are logged, each as it was.
func TestOutputLog_WholeIfThereIsRoom(t *testing.T) {
	l, b := newTestLog(slog.LevelInfo, defaultLogRoom())
	long := strings.Repeat("0123456789", 1_000_000)
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	text.WriteString(long + "\nand the end")
	for rest := text.String(); rest != ""; {
		n := min(len(rest), 65536)
		_, _ = io.WriteString(l, rest[:n])
		rest = rest[n:]
	}
	_ = l.Close()
	_ = l.Close()
	got := readOutput(t, b)
	if n := len(got.lines); n != 20_002 || got.lines[19_999] != "line 19999" || got.lines[20_000] != long || got.lines[20_001] != "and the end" {
		t.Errorf("%d lines are logged, want 20002, whole", n)
	}
	if len(got.left) != 0 {
		t.Errorf("%v was left out, want nothing", got.left)
	}
}

// A run that prints for an hour, far more than there is room for: the log holds what it may, whole
// lines only, and says how much it does not have.
func TestOutputLog_Bounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		most := logRoom{burst: 256 << 10, rate: 1 << 10, again: 16 << 10}
		l, b := newTestLog(slog.LevelInfo, most)
		var written, next int64
		var text []byte
		for range 3600 { // 64 KiB a second, in lines of 100 bytes
			for len(text) < 1<<16 {
				text = fmt.Appendf(text, "%099d\n", next)
				next++
			}
			n, err := l.Write(text[:1<<16])
			if n != 1<<16 || err != nil {
				t.Fatalf("Write = %d, %v, want all of it", n, err)
			}
			text = append(text[:0], text[n:]...)
			written += int64(n)
			time.Sleep(time.Second)
		}
		_ = l.Close()
		got := readOutput(t, b)
		logged := int64(0)
		last := int64(-1)
		for i, line := range got.lines {
			var n int64
			if _, err := fmt.Sscanf(line, "%d", &n); err != nil || len(line) != 99 {
				if i == len(got.lines)-1 {
					continue // what Close found
				}
				t.Fatalf("line %d is %q, want a whole one", i, line)
			}
			if n != last+1 && got.left[i] == 0 {
				t.Fatalf("line %d comes after %d, and nothing says that something was left out", n, last)
			}
			last = n
			logged += int64(len(line)) + 1
		}
		if sum := logged + got.allLeft(); sum < written-1 || sum > written+1 {
			t.Errorf("%d bytes logged and %d left out are %d, of %d", logged, got.allLeft(), sum, written)
		}
		if all := int(most.burst + 3600*most.rate); got.bytes > all || got.bytes < all/2 {
			t.Errorf("the log has %d bytes, want at most %d, and most of them", got.bytes, all)
		}
		if n := len(got.left); n < 100 || n > 250 {
			t.Errorf("it is said %d times that something was left out, want once for each %d bytes of room", n, most.again)
		}
	})
}

// What was left out without a line after it is said at the end.
func TestOutputLog_SaysWhatTheEndLacks(t *testing.T) {
	l, b := newTestLog(slog.LevelInfo, defaultLogRoom())
	line := []byte(strings.Repeat("x", 999) + "\n")
	const n = 200_000
	for range n {
		_, _ = l.Write(line)
	}
	_, _ = io.WriteString(l, "no end")
	_ = l.Close()
	got := readOutput(t, b)
	if logged := int64(len(got.lines)) * 1000; logged+got.allLeft() != n*1000+6 || got.left[len(got.lines)] == 0 {
		t.Errorf("%d bytes logged and %v left out, want %d in all, and the last said", logged, got.left, n*1000+6)
	}
}

// Above the level of output nothing is logged, and nothing is said to be missing.
func TestOutputLog_BelowTheLevel(t *testing.T) {
	l, b := newTestLog(slog.LevelWarn, logRoom{burst: 1})
	if n := testing.AllocsPerRun(10, func() { _, _ = l.Write(make([]byte, 100)) }); n > 0 {
		t.Errorf("a write allocates %v times, want none", n)
	}
	_, _ = l.Write(make([]byte, 1<<20))
	_ = l.Close()
	if b.Len() != 0 {
		t.Errorf("log %q, want nothing", b)
	}
}
