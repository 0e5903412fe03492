package jobs

import (
	"bytes"
	"io"
	"sync"
)

// MaxLineBytes bounds what [Lines] hands over at a time. It is below the 48 KiB at which
// systemd-journald splits lines by itself (LineMax= in journald.conf(5)), with room for the
// attributes of a log line.
const MaxLineBytes = 32 << 10

// Lines cuts what is written to it into lines, so that each can be logged with its job and run
// and no line of one run is mixed with another's. It keeps at most one line of
// [MaxLineBytes] in memory.
//
// It is an [io.WriteCloser] and safe for concurrent use; emit is called by one goroutine at a
// time, in order, before the Write that completes the line returns.
type Lines struct {
	emit func(line string, continued bool)

	mu     sync.Mutex
	rest   []byte // of the last line, not yet ended
	closed bool
}

// NewLines returns a Lines that hands each line to emit, without its line feed or CR LF. A line
// longer than [MaxLineBytes] comes in pieces, which do not split a UTF-8 character; continued
// says that the line goes on with the next call.
func NewLines(emit func(line string, continued bool)) *Lines {
	return &Lines{emit: emit}
}

// Write takes all of p. The only error is [io.ErrClosedPipe], after Close.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	written := len(p)
	for len(p) > 0 {
		line, after, ended := bytes.Cut(p, []byte{'\n'})
		for len(l.rest)+len(line) > MaxLineBytes {
			room := MaxLineBytes - len(l.rest)
			l.rest = append(l.rest, line[:room]...)
			line = line[room:]
			cut := len(l.rest) - partialRune(l.rest)
			l.emit(string(l.rest[:cut]), true)
			l.rest = append(l.rest[:0], l.rest[cut:]...)
		}
		switch {
		case !ended:
			l.rest = append(l.rest, line...)
		case len(l.rest) == 0:
			l.emit(string(bytes.TrimSuffix(line, []byte{'\r'})), false)
		default:
			l.rest = append(l.rest, line...)
			l.flush()
		}
		p = after
	}
	return written, nil
}

// Close hands over the last line if it had no line feed. It returns no error, and does nothing
// the second time.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && len(l.rest) > 0 {
		l.flush()
	}
	l.closed = true
	return nil
}

// flush emits the rest as the end of a line.
func (l *Lines) flush() {
	l.emit(string(bytes.TrimSuffix(l.rest, []byte{'\r'})), false)
	l.rest = l.rest[:0]
}
