package scheduler

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"rota/jobs"
)

// logRoom is what the log takes of one run, in bytes of records. A run that prints without end would
// otherwise fill a disk: a record takes a hundred times the two bytes of the shortest line. The
// beginning and the end of an output are kept with the run, whatever the log has of it.
type logRoom struct {
	burst int64 // at once
	rate  int64 // a second
	again int64 // how much must have come together, once it was too little, for lines to be logged again
}

func defaultLogRoom() logRoom { return logRoom{burst: 64 << 20, rate: 256 << 10, again: 4 << 20} }

// recordBytes is what a record takes besides the line: for its job, tick and run, and their names.
const recordBytes = 256

// outputLog logs the lines that a run prints, as far as there is room for them, and says how much was
// left out. It is an [io.WriteCloser], safe for concurrent use.
type outputLog struct {
	log *slog.Logger // nil: output is below its level
	max logRoom

	mu     sync.Mutex
	lines  *jobs.Lines // nil: what comes is left out, to the end of its line and further
	room   int64       // bytes of records, at the instant of filled
	filled time.Time
	left   int64 // bytes left out, and not said yet
	torn   bool  // the line that is logged now has no end
}

func newOutputLog(log *slog.Logger, most logRoom) *outputLog {
	l := &outputLog{max: most, room: most.burst, filled: time.Now()}
	if log.Enabled(context.Background(), slog.LevelInfo) {
		l.log = log
		l.lines = jobs.NewLines(l.line)
	}
	return l
}

// Write takes all of p, and returns no error.
func (l *outputLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	if l.log == nil {
		return n, nil
	}
	l.fill(time.Now())
	if l.lines == nil {
		if p = l.resume(p); len(p) == 0 {
			return n, nil
		}
	}
	_, _ = l.lines.Write(p)
	if l.room <= 0 {
		l.end() // leaves out the beginning of a line, as its end will be
	}
	return n, nil
}

// line logs a line, or leaves it out. The lock is held: it is called from Write and Close.
func (l *outputLog) line(line string, continued bool) {
	if l.room <= 0 {
		if l.left += int64(len(line)); !continued && !l.torn {
			l.left++
		}
		return
	}
	l.room -= int64(len(line)) + recordBytes
	l.log.Info("output", "line", line, "continued", continued)
}

// end hands over what is left of the last line.
func (l *outputLog) end() {
	l.torn = true
	_ = l.lines.Close()
	l.lines, l.torn = nil, false
}

// fill adds the room that has come since the last time.
func (l *outputLog) fill(now time.Time) {
	if passed := now.Sub(l.filled); passed >= time.Millisecond { // less would add nothing, for ever
		l.filled = now
		l.room = min(l.max.burst, l.room+int64(passed.Seconds()*float64(l.max.rate)))
	}
}

// resume leaves p out, or begins again with the first whole line of it, which it returns.
func (l *outputLog) resume(p []byte) []byte {
	out, rest := p, []byte(nil)
	if l.room >= l.max.again {
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			out, rest = p[:i+1], p[i+1:]
		}
	}
	l.left += int64(len(out))
	if len(rest) > 0 {
		l.say()
		l.lines = jobs.NewLines(l.line)
	}
	return rest
}

// say says how much was left out since it last did.
func (l *outputLog) say() {
	if l.left > 0 {
		l.log.Warn("output left out of the log", "bytes", l.left,
			"reason", "the run prints more than there is room for", "effect", "rota output has its beginning and its end")
	}
	l.left = 0
}

// Close logs what is left of the last line. It returns no error.
func (l *outputLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == nil {
		return nil
	}
	if l.lines != nil {
		l.end()
	}
	l.say()
	l.log = nil
	return nil
}
