package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A log may block: a pipe that nobody reads takes no more after 64 KiB (pipe(7)), for as long as that
// lasts. Nothing that the scheduler promises may wait for it: that a run ends before its lease, that a
// lease is renewed, that an outcome is kept. So its lines go through a queue, and whoever has something
// to say goes on at once. What a run prints does wait, as it would for any reader.

// linesQueued is how many lines wait for a log that takes none. The others are counted.
const linesQueued = 1000

// logQueue writes lines in their order, in a goroutine of its own for as long as there are any. A line
// is written within a moment, unless the log blocks; what is in the queue is lost with the process.
type logQueue struct {
	log   slog.Handler
	write chan struct{} // full: somebody writes

	mu    sync.Mutex // guards what follows
	lines []queuedLine
	left  int  // how many found no room since that was said last
	busy  bool // there is the goroutine
}

type queuedLine struct {
	to     slog.Handler
	record slog.Record
}

func newLogQueue(log slog.Handler) *logQueue {
	return &logQueue{log: log, write: make(chan struct{}, 1)}
}

func (q *logQueue) put(l queuedLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) >= linesQueued {
		q.left++
		return
	}
	q.lines = append(q.lines, l)
	if !q.busy {
		q.busy = true
		go q.run()
	}
}

func (q *logQueue) run() {
	for {
		q.flush()
		q.mu.Lock()
		if len(q.lines) == 0 {
			q.busy = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
	}
}

// flush writes all there is, and returns when it is written.
func (q *logQueue) flush() {
	q.write <- struct{}{}
	defer func() { <-q.write }()
	for {
		l, ok := q.take()
		if !ok {
			return
		}
		_ = l.to.Handle(context.Background(), l.record) // who writes a log has nobody to tell that he cannot
	}
}

// take is the next line, behind the last of a full queue the one that says how many there was no room for.
func (q *logQueue) take() (l queuedLine, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.lines) > 0:
		l = q.lines[0]
		q.lines = q.lines[1:]
		return l, true
	case q.left > 0:
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines left out of the log", 0)
		r.Add("count", q.left, "reason", "nobody took them in time")
		q.left = 0
		return queuedLine{q.log, r}, true
	}
	return l, false
}

// settle waits for the queue to be written, a second at most.
func (q *logQueue) settle() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.flush()
	}()
	waitFor(time.Second, done)
}

// queued is a handler whose lines go through the queue.
type queued struct {
	slog.Handler
	queue *logQueue
}

func (h queued) Handle(_ context.Context, r slog.Record) error {
	h.queue.put(queuedLine{h.Handler, r.Clone()}) //nolint:contextcheck // written when its writer has gone on
	return nil
}

func (h queued) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queued{h.Handler.WithAttrs(attrs), h.queue}
}

func (h queued) WithGroup(name string) slog.Handler {
	return queued{h.Handler.WithGroup(name), h.queue}
}

// awaited is the same logger, but whoever writes a line to it waits until the log has it, and all before
// it.
func awaited(log *slog.Logger) *slog.Logger {
	h, ok := log.Handler().(queued)
	if !ok {
		return log
	}
	return slog.New(direct(h))
}

// direct is a handler whose lines come after those of the queue, and pass it by.
type direct struct {
	slog.Handler
	queue *logQueue
}

func (h direct) Handle(ctx context.Context, r slog.Record) error {
	h.queue.flush() //nolint:contextcheck // the lines of others
	return h.Handler.Handle(ctx, r)
}

func (h direct) WithAttrs(attrs []slog.Attr) slog.Handler {
	return direct{h.Handler.WithAttrs(attrs), h.queue}
}

func (h direct) WithGroup(name string) slog.Handler {
	return direct{h.Handler.WithGroup(name), h.queue}
}
