package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
)

// undying is a handler whose processes die some time after they were killed: they hang in the kernel.
type undying struct {
	f     *fleet
	after time.Duration
}

func (u undying) Run(ctx context.Context, run jobs.Run) jobs.Result {
	u.f.mu.Lock()
	u.f.runs = append(u.f.runs, run)
	u.f.mu.Unlock()
	<-run.Kill
	time.Sleep(u.after)
	outcome, reason, _ := jobs.EndOf(ctx)
	return jobs.Result{Outcome: outcome, Reason: reason}
}

// holder is who holds a lock, as the lease has it; "" if nobody does.
func (f *fleet) holder(lock string) string {
	f.t.Helper()
	v, err := f.redis.Get("{t}:lock:" + lock)
	if err != nil {
		return ""
	}
	return strings.SplitN(v, "|", 4)[3]
}

// A daemon is told twice to stop, and what its run started lives on for a while: the lock is its until
// that is gone or its lease has ended, whichever comes first, and only then does another host run the
// tick again. (TTL 10 s, renewed every second.)
func TestKill_TheLockOutlivesTheRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler func(f *fleet) jobs.Handler
		after   time.Duration // until what was started is gone
		exit    time.Duration // until the daemon is, at most
		least   time.Duration // until the lock is free, and it is not much longer
		log     string
	}{
		{"gone at once", undyingFor(0), 0, 100 * time.Millisecond, 0, ""},
		{"gone after 5 s", undyingFor(5 * time.Second), 5 * time.Second, 5100 * time.Millisecond, 5 * time.Second, ""},
		{"not gone when the lease has ended", undyingFor(time.Minute), time.Minute, 10 * time.Second, 17 * time.Second, "run did not end"},
		{"a Go function that ignores its end", func(f *fleet) jobs.Handler {
			return jobs.Func(func(ctx context.Context, run jobs.Run) error {
				_ = undying{f, time.Minute}.Run(ctx, run)
				return nil
			})
		}, time.Minute, 1100 * time.Millisecond, 9 * time.Second, "handler did not stop"},
		{"one with retries", func(f *fleet) jobs.Handler {
			return jobs.Retry{Handler: undying{f, 5 * time.Second}, Retries: 3}
		}, 5 * time.Second, 5100 * time.Millisecond, 5 * time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				j := job(t, "j", "0 * * * *", c.handler(f))
				j.OnCrash = CrashRerun
				log := &logBuffer{}
				h := f.start("h0", func(o *Options) { boot(o); log.into(o) }, j)
				until(t, "01:00:20")
				other := j
				other.Handler = f.handler(time.Second)
				f.start("h1", boot, other)
				until(t, "01:00:30")
				killed := time.Now()
				h.stop()
				h.Kill()
				ended := make(chan time.Duration, 1)
				go func() {
					<-h.ended
					ended <- time.Since(killed)
				}()
				free := time.Duration(-1)
				for free < 0 && time.Since(killed) < time.Minute {
					if !strings.HasPrefix(f.holder("j"), "h0/") {
						free = time.Since(killed)
					}
					time.Sleep(10 * time.Millisecond)
				}
				if free < c.least || free > c.least+3*time.Second {
					t.Errorf("the lock was free %s after the second signal, want %s or a little more", free, c.least)
				}
				if took := <-ended; took > c.exit {
					t.Errorf("the daemon took %s to end, want %s at most", took, c.exit)
				}
				until(t, "01:01:40")
				f.wantSays("j", "01:00:00 interrupted", "01:00:00 succeeded rerun")
				if e := f.history("j")[0]; e.Late || e.Host != "h0" {
					t.Errorf("the first run ended %+v, want it reported in time by h0", e)
				}
				if n := log.count("level=ERROR"); n != min(1, len(c.log)) || log.count(c.log) == 0 {
					t.Errorf("%d errors are in the log, want %q and no other", n, c.log)
				}
			})
		})
	}
}

func undyingFor(d time.Duration) func(*fleet) jobs.Handler {
	return func(f *fleet) jobs.Handler { return undying{f, d} }
}
