package jobs

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
)

// Output keeps the beginning and the end of what is written to it, in bounded memory: the first
// quarter and the last three quarters of its limit. What went wrong is mostly said last, and
// what was begun first.
//
// It is an [io.Writer] that never fails. It is safe for concurrent use.
type Output struct {
	headMax, tailMax int

	mu    sync.Mutex
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
	total int64
}

// NewOutput returns an Output that keeps limit bytes. Zero or less keeps none and only counts.
func NewOutput(limit int) *Output {
	limit = max(limit, 0)
	return &Output{headMax: limit / 4, tailMax: limit - limit/4}
}

// Write takes all of p and returns its length and no error.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	written := len(p)
	o.total += int64(written)

	k := min(o.headMax-len(o.head), len(p))
	o.head = appendUpTo(o.head, p[:k], o.headMax)
	p = p[k:]
	// Of a write longer than the whole tail only the end can stay.
	if len(p) > o.tailMax {
		p = p[len(p)-o.tailMax:]
	}
	k = min(o.tailMax-len(o.tail), len(p))
	o.tail = appendUpTo(o.tail, p[:k], o.tailMax)
	p = p[k:]
	for len(p) > 0 {
		k = copy(o.tail[o.next:], p)
		o.next = (o.next + k) % o.tailMax
		p = p[k:]
	}
	return written, nil
}

// Total is the number of bytes written so far, kept or not.
func (o *Output) Total() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// Bytes returns a copy of what was kept. If something was left out, a line of its own between
// the two parts says how many bytes, and the parts end and begin with a whole UTF-8 character;
// the result is then a little longer than the limit.
func (o *Output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := slices.Concat(o.tail[o.next:], o.tail[:o.next])
	if o.total == int64(len(o.head)+len(tail)) {
		return slices.Concat(o.head, tail)
	}
	head := o.head[:len(o.head)-partialRune(o.head)]
	for range min(utf8.UTFMax-1, len(tail)) {
		if utf8.RuneStart(tail[0]) {
			break
		}
		tail = tail[1:]
	}
	kept := slices.Clone(head)
	if len(kept) > 0 && kept[len(kept)-1] != '\n' {
		kept = append(kept, '\n')
	}
	kept = fmt.Appendf(kept, "[... %d bytes left out ...]\n", o.total-int64(len(head)+len(tail)))
	return append(kept, tail...)
}

// String is Bytes as a string.
func (o *Output) String() string { return string(o.Bytes()) }

// appendUpTo is append without the spare room beyond limit: many runs are kept at a time.
func appendUpTo(to, p []byte, limit int) []byte {
	if need := len(to) + len(p); need > cap(to) {
		grown := make([]byte, len(to), min(max(need, 2*cap(to)), limit))
		copy(grown, to)
		to = grown
	}
	return append(to, p...)
}

// partialRune is the number of bytes at the end of b that begin a UTF-8 character and do not
// complete it.
func partialRune(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
