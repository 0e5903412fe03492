//go:build linux

package jobs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// lateRecords is how many records wait for a log that takes none.
	lateRecords = 256

	// latePatience is how long Close waits for such a log.
	latePatience = time.Second
)

// A lateLog hands log records on from a goroutine of its own. Whoever ends runs logs through it: a log
// that blocks, because its pipe is full or its disk hangs, must not keep them alive. What does not fit is
// left out and counted.
type lateLog struct {
	records chan lateRecord
	dropped atomic.Int64
	stop    chan struct{}
	stopped chan struct{}
}

type lateRecord struct {
	to     slog.Handler
	record slog.Record
}

// newLateLog starts the goroutine. Its logger never blocks, and hands on to log.
func newLateLog(log *slog.Logger) (*lateLog, *slog.Logger) {
	l := &lateLog{records: make(chan lateRecord, lateRecords), stop: make(chan struct{}), stopped: make(chan struct{})}
	go l.run(log)
	return l, slog.New(&lateHandler{log.Handler(), l})
}

func (l *lateLog) run(log *slog.Logger) {
	defer close(l.stopped)
	for stopping := false; ; {
		for len(l.records) > 0 {
			(<-l.records).write()
		}
		if n := l.dropped.Swap(0); n > 0 {
			log.Warn("log records left out", "count", n, "reason", "the log took none")
		}
		if stopping {
			return
		}
		select {
		case r := <-l.records:
			r.write()
		case <-l.stop:
			stopping = true
		}
	}
}

// write drops the error, as package slog does.
func (r lateRecord) write() { _ = r.to.Handle(context.Background(), r.record) }

// close waits for what there is to be written, and not for ever. It may be called on nil.
func (l *lateLog) close() {
	if l == nil {
		return
	}
	close(l.stop)
	timer := time.NewTimer(latePatience)
	defer timer.Stop()
	select {
	case <-l.stopped:
	case <-timer.C:
	}
}

// A lateHandler is a [slog.Handler] before another one.
type lateHandler struct {
	to  slog.Handler
	log *lateLog
}

func (h *lateHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *lateHandler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.log.records <- lateRecord{h.to, r.Clone()}:
	default:
		h.log.dropped.Add(1)
	}
	return nil
}

func (h *lateHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &lateHandler{h.to.WithAttrs(attrs), h.log}
}

func (h *lateHandler) WithGroup(name string) slog.Handler {
	return &lateHandler{h.to.WithGroup(name), h.log}
}
