package demo

import (
	"io"
	"strings"
)

// screen writes the view. On a terminal its last line is the status, which is taken away before
// other lines are written, and comes back below them.
type screen struct {
	w      io.Writer
	live   bool
	status string
	err    error // of the first write that failed: nobody looks any more
}

// eraseLine moves to the line's begin and erases to its end (ECMA-48: CR, EL).
const eraseLine = "\r\x1b[K"

// print writes lines, in one write, so that a terminal shows them at once.
func (s *screen) print(lines ...string) {
	var b strings.Builder
	if s.status != "" {
		b.WriteString(eraseLine)
	}
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString(s.status)
	s.write(b.String())
}

// show replaces the status; "" takes it away.
func (s *screen) show(status string) {
	if !s.live || status == s.status {
		return
	}
	s.status = status
	s.write(eraseLine + status)
}

func (s *screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}
