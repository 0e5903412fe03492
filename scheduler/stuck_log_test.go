package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// pipeLog is a log whose reader may stop reading: from then on each line blocks whoever writes it, as a
// write to a full pipe does.
type pipeLog struct {
	mu   sync.Mutex
	read chan struct{} // closed: somebody reads
	held int           // lines that somebody waits to write
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

func (l *pipeLog) into(o *Options) { o.Logger = slog.New(l) }

func (l *pipeLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l *pipeLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *pipeLog) WithGroup(string) slog.Handler                    { return l }

func (l *pipeLog) Handle(context.Context, slog.Record) error {
	l.mu.Lock()
	read := l.read
	l.held++
	l.mu.Unlock()
	<-read
	l.mu.Lock()
	l.held--
	l.mu.Unlock()
	return nil
}

// Nobody reads the log when a lease is lost: the run is told, its deadlines are moved and its Kill channel
// is closed at the instants at which they would be otherwise.
func TestWatch_ActsBeforeItIsLogged(t *testing.T) {
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

// Nobody reads the log when a run is to start: its handler is not called for as long as that lasts, and
// not after its lease has ended either.
func TestExecute_StartsNothingAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "work", "0 * * * *", f.handler(time.Second))
		log := newPipeLog()
		f.start("h0", log.into, j)
		until(t, "00:59:59")
		again := log.stop()
		defer again()
		until(t, "01:00:10")
		f.redis.Del("{t}:lock:work")
		until(t, "01:00:20")
		again()
		until(t, "01:00:30")
		if runs := f.ran(); len(runs) != 0 {
			t.Errorf("%d handlers were called for a run whose lease was lost before, want none", len(runs))
		}
		f.wantSays("work", "01:00:00 lost")
	})
}
