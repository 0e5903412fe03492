package scheduler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// pipeLog is a log whose reader may stop reading: from then on each line blocks whoever writes it, as a
// write to a full pipe does.
type pipeLog struct {
	mu    sync.Mutex
	read  chan struct{} // closed: somebody reads
	held  int           // lines that somebody waits to write
	lines []string      // that were written, in short
}

func newPipeLog() *pipeLog {
	l := &pipeLog{read: make(chan struct{})}
	close(l.read)
	return l
}

// stop has nobody read until the function returned is called.
func (l *pipeLog) stop() (again func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	read := make(chan struct{})
	l.read = read
	return sync.OnceFunc(func() { close(read) })
}

func (l *pipeLog) blocked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// written are the lines with one of these messages: the message, and what was printed.
func (l *pipeLog) written(messages ...string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if slices.ContainsFunc(messages, func(m string) bool { return strings.HasPrefix(line, m) }) {
			out = append(out, line)
		}
	}
	return out
}

func (l *pipeLog) into(o *Options) { o.Logger = slog.New(l) }

func (l *pipeLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *pipeLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *pipeLog) WithGroup(string) slog.Handler                    { return l }

func (l *pipeLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "line" || a.Key == "count" {
			text += " " + a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	read := l.read
	l.held++
	l.mu.Unlock()
	<-read
	l.mu.Lock()
	l.held--
	l.lines = append(l.lines, text)
	l.mu.Unlock()
	return nil
}

// Nobody reads the log when a lease is lost: the run is told, its deadlines are moved and its Kill channel
// is closed at the instants at which they would be otherwise.
func TestWatch_ActsBeforeItIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		runs, killed := make(chan jobs.Run, 1), make(chan time.Time, 1)
		j := job(t, "work", "0 * * * *", jobs.Func(func(ctx context.Context, run jobs.Run) error {
			runs <- run
			<-run.Kill
			killed <- time.Now()
			return context.Cause(ctx)
		}))
		log := newPipeLog()
		var opt Options
		f.start("h0", func(o *Options) { boot(o); log.into(o); opt = *o }, j)
		run := <-runs
		time.Sleep(5 * time.Second)
		again := log.stop()
		defer again()
		f.redis.Del("{t}:lock:work") // the next renewal is refused, within a second
		refused := time.Now()
		time.Sleep(3 * time.Second)
		if len(killed) == 0 {
			t.Fatal("the Kill channel is open 3 s after the lease was taken away, with a loss grace of 1 s")
		}
		if after := (<-killed).Sub(refused); after > 2100*time.Millisecond {
			t.Errorf("Kill was closed %s after the lease was taken away, want a renewal and the grace later: 2 s", after)
		}
		if term, kill, _ := run.Deadlines.At(); kill > opt.Boottime() || kill-term != opt.LossGrace {
			t.Errorf("the deadlines are %s ago and %s apart, want past, and the loss grace", opt.Boottime()-kill, kill-term)
		}
		if log.blocked() == 0 {
			t.Error("no line waits to be written: the test shows nothing")
		}
		again()
		time.Sleep(time.Second)
		f.wantSays("work", "01:00:00 lost")
	})
}

// Nobody reads the log while Redis is away for a moment and back: leases are renewed, and no run is lost.
func TestRenew_WaitsForNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "0 * * * *", f.handler(2*time.Minute))
		log := newPipeLog()
		h := f.start("h0", log.into, j)
		until(t, "01:00:10")
		again := log.stop()
		defer again()
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(1500 * time.Millisecond)
		f.redis.SetError("")
		time.Sleep(30 * time.Second) // three leases
		if log.blocked() == 0 {
			t.Error("no line waits to be written: the test shows nothing")
		}
		if !h.redis.awayWithin(time.Minute) {
			t.Error("Redis was not seen to be away")
		}
		again()
		until(t, "01:03:00")
		f.wantSays("work", "01:00:00 succeeded")
	})
}

// Nobody reads the log: ticks are claimed and run all the same, their outcomes are recorded, and a
// daemon that is stopped ends. What has been said comes when somebody reads again, in order.
func TestScheduler_GoesOnWhenNobodyReadsItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "* * * * *", f.handler(10*time.Second))
		j.OnCrash = CrashRerun
		log := newPipeLog()
		h := f.start("h0", log.into, j)
		until(t, "00:01:30")
		again := log.stop()
		defer again()
		until(t, "00:03:30")
		f.wantSays("work", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded")
		begun := time.Now()
		h.stop()
		<-h.ended
		if took := time.Since(begun); took > 1500*time.Millisecond {
			t.Errorf("the daemon took %s to end, want a second for its log", took)
		}
		again()
		time.Sleep(time.Second)
		want := []string{"run started", "run ended", "run started", "run ended", "run started", "run ended", "drain began"}
		if got := log.written("run", "drain"); !slices.Equal(got, want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
	})
}

// What a run prints stands between its start and its end, and a run that prints waits for its reader.
func TestLogQueue_OutputKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "* * * * *", jobs.Func(func(_ context.Context, run jobs.Run) error {
			fmt.Fprintf(run.Output, "one\ntwo\n")
			return nil
		}))
		log := newPipeLog()
		f.start("h0", log.into, j)
		want := []string{"run started", "output one", "output two", "run ended"}
		until(t, "00:01:30")
		if got := log.written("run", "output"); !slices.Equal(got, want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
		again := log.stop()
		defer again()
		until(t, "00:02:30")
		f.wantSays("work", "00:01:00 succeeded", "00:02:00 running")
		again()
		until(t, "00:02:40")
		f.wantSays("work", "00:01:00 succeeded", "00:02:00 succeeded")
		if got := log.written("run", "output"); !slices.Equal(got, append(want, want...)) {
			t.Errorf("the log has %q, want that twice", got)
		}
	})
}

// More lines than there is room for are left out, the newest, and counted.
func TestLogQueue_IsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newPipeLog()
		q := newLogQueue(log)
		l := slog.New(queued{log, q}).With("job", "j")
		l.Info("first")
		q.settle()
		again := log.stop()
		defer again()
		for range linesQueued + 1 { // one is being written
			l.Info("more")
			synctest.Wait()
		}
		for range 7 {
			l.Info("too much")
		}
		begun := time.Now()
		q.settle()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("settle(1s) of a log that blocks took %s", took)
		}
		again()
		q.settle()
		l.Info("last")
		q.settle()
		want := []string{"first", "lines left out of the log 7", "last"}
		if got := log.written("first", "lines", "too", "last"); !slices.Equal(got, want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
		if n := len(log.written("more")); n != linesQueued+1 {
			t.Errorf("%d lines waited for a reader, want %d", n, linesQueued+1)
		}
	})
}
