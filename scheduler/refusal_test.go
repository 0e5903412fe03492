package scheduler

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (l *logBuffer) into(o *Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// Redis answers and refuses over a tick (a password was changed), and is mended within the
// start deadline: the tick runs. The refusal costs one line, not one a try or a tick.
func TestRefusal_TickRunsWhenItIsMended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "*/20 * * * * *", f.handler(time.Millisecond))
		j.StartDeadline = 19 * time.Second
		log := &logBuffer{}
		f.start("h0", log.into, j)
		time.Sleep(39 * time.Second) // :39
		f.redis.SetError("NOAUTH Authentication required.")
		time.Sleep(6 * time.Second)
		f.redis.SetError("")
		time.Sleep(10 * time.Second)
		var got []string
		for _, e := range f.history("j") {
			got = append(got, e.Tick.Format("05 ")+e.Outcome)
		}
		if s := strings.Join(got, ","); s != "20 succeeded,40 succeeded" {
			t.Errorf("history is %s, want the tick of :40 run when Redis was mended", s)
		}
		if n := log.count("claim refused by redis"); n != 1 {
			t.Errorf("%d lines say that the claim was refused, want 1", n)
		}
	})
}

// A daemon that was killed and started again finds its own last heartbeat: no twin. One that
// goes on beating is.
func TestAlarm_TwinIsWhoeverGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		beat := func() {
			if _, err := f.led.Beat(t.Context(), ledger.Host{Name: "h0", ID: "other"}, "e", "0"); err != nil {
				t.Fatal(err)
			}
		}
		log := &logBuffer{}
		beat()
		f.start("h0", log.into, job(t, "j", "0 0 1 1 *", f.handler(0)))
		time.Sleep(5 * time.Second)
		if n := log.count("two daemons"); n != 0 {
			t.Errorf("a restart raised the alarm %d times, want none", n)
		}
		for range 5 {
			beat()
			time.Sleep(2 * time.Second)
		}
		if n := log.count("two daemons"); n != 1 {
			t.Errorf("a living twin raised the alarm %d times, want once", n)
		}
	})
}

// patient is a handler that takes its time to end, and says so.
type patient struct{ jobs.Handler }

func (patient) Grace() time.Duration { return 45 * time.Second }

// The drain waits as long as the handlers that run at that moment say that they need.
func TestDrain_WaitsForTheGraceOfWhatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", patient{jobs.Func(func(ctx context.Context, _ jobs.Run) error {
			<-ctx.Done()
			time.Sleep(44 * time.Second) // tidies up
			return nil
		})})
		h := f.start("h0", func(o *Options) { o.Drain = time.Second }, j)
		time.Sleep(65 * time.Second)
		begun := time.Now()
		h.stop()
		<-h.ended
		if d := time.Since(begun); d < 45*time.Second || d > 46*time.Second {
			t.Errorf("the drain took %s, want its second and the 44 the handler took", d)
		}
		if e := f.history("j")[0]; e.Outcome != string(jobs.Interrupted) {
			t.Errorf("outcome %q, want interrupted", e.Outcome)
		}
	})
}
