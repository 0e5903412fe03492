package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// A rash is a handler that is no function.
type rash struct{}

func (rash) Run(context.Context, jobs.Run) jobs.Result { panic("boom") }

func explode(context.Context, jobs.Run) error { panic("boom") }

// Case E25: a handler that panics fails its run, whose stack is in the log and with the run. Its lock is
// free again and its next tick runs, other jobs go on, and so does the loop that the watchdog looks at.
func TestScheduler_HandlerThatPanics(t *testing.T) {
	for name, handler := range map[string]jobs.Handler{"explode": jobs.Func(explode), "rash": rash{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				log := &logBuffer{}
				h := f.start("h0", log.into,
					job(t, "rash", "* * * * *", handler), job(t, "calm", "* * * * *", f.handler(time.Second)))
				time.Sleep(2*time.Minute + 10*time.Second)
				f.wantSays("rash", "00:01:00 failed", "00:02:00 failed")
				f.wantSays("calm", "00:01:00 succeeded", "00:02:00 succeeded")
				for _, e := range f.history("rash") {
					if e.Reason != "panic: boom" || e.ExitCode != nil {
						t.Errorf("a run failed with %q, code %v; want panic: boom, none", e.Reason, e.ExitCode)
					}
					output, err := f.led.Output(t.Context(), e.Run)
					if err != nil || !strings.HasPrefix(string(output), "panic: boom\n") || !strings.Contains(string(output), "scheduler."+name) {
						t.Errorf("its output is %q, %v; want the panic and its stack", output, err)
					}
				}
				if f.redis.Exists("{t}:lock:rash") {
					t.Error("the lock is still held")
				}
				if log.count("panic: boom") == 0 || log.count("scheduler."+name) == 0 {
					t.Error("the stack is not in the log")
				}
				if d := time.Since(h.Progress()); d > 1100*time.Millisecond {
					t.Errorf("the loop went round %s ago, want every second", d)
				}
			})
		})
	}
}
