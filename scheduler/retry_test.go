package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

// failing returns a handler whose attempts each take d and fail, but for the last, and the runs that
// it was told.
func failing(d time.Duration, failures int) (h jobs.Handler, told func() []jobs.Run) {
	var mu sync.Mutex
	var runs []jobs.Run
	h = jobs.Func(func(ctx context.Context, run jobs.Run) error {
		mu.Lock()
		runs = append(runs, run)
		n := len(runs)
		mu.Unlock()
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		if n <= failures {
			return errors.New("not yet")
		}
		return nil
	})
	return h, func() []jobs.Run {
		mu.Lock()
		defer mu.Unlock()
		return runs
	}
}

// Attempts are one run: one tick, one entry, one token, under a lease that is renewed all the while.
// A tick that comes due meanwhile finds the lock held.
func TestScheduler_AttemptsAreOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		h, told := failing(25*time.Second, 2) // a lease lives 10 s
		j := job(t, "j", "* * * * *", jobs.Retry{Handler: h, Retries: 5, Backoff: time.Second, Max: time.Second})
		for _, name := range names(2) {
			f.start(name, nil, j)
		}
		time.Sleep(2*time.Minute + 30*time.Second)
		e := f.history("j")
		if len(e) < 2 || e[0].Outcome != string(jobs.Succeeded) || e[0].Attempt != 3 || e[1].Outcome != "skipped" {
			t.Fatalf("history: %+v; want a run that succeeded in attempt 3, then a skipped tick", e)
		}
		if took := e[0].Ended.Sub(e[0].Started); took < 75*time.Second || took > 77*time.Second {
			t.Errorf("the run took %s, want its three attempts of 25s and up to 2s between them", took)
		}
		for i, run := range told() {
			if run.Attempt != i+1 || run.ID != e[0].Run || run.Token != e[0].Token || !run.Tick.Equal(e[0].Tick) || run.Manual {
				t.Errorf("attempt %d was told %+v, want the run %s, token %d", i+1, run, e[0].Run, e[0].Token)
			}
		}
	})
}

// The timeout is the run's: it ends the attempt that is under way, or the wait for the next.
func TestScheduler_TimeoutIsOfAllAttempts(t *testing.T) {
	for name, retry := range map[string]jobs.Retry{
		"in an attempt": {Retries: 100},
		"in a wait":     {Retries: 1, Backoff: 1 << 62},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				var told func() []jobs.Run
				retry.Handler, told = failing(4*time.Second, 100)
				j := job(t, "j", "* * * * *", retry)
				j.Timeout = 10 * time.Second
				f.start("h0", nil, j)
				time.Sleep(75 * time.Second)
				e := f.history("j")[0]
				attempts := len(told())
				if e.Outcome != string(jobs.TimedOut) || e.Ended.Sub(e.Started) != 10*time.Second || e.Attempt != attempts {
					t.Errorf("the run ended %s after %s in attempt %d, want timed_out after 10s in attempt %d",
						e.Outcome, e.Ended.Sub(e.Started), e.Attempt, attempts)
				}
				if !strings.HasPrefix(e.Reason, "timed out after 10s") {
					t.Errorf("reason %q, want that of the timeout", e.Reason)
				}
			})
		})
	}
}

// A handler can tell a run that somebody asked for from that of a tick.
func TestScheduler_ManualRunsAreToldSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.start("h0", nil, job(t, "j", "* * * * *", f.handler(time.Second)))
		time.Sleep(70 * time.Second)
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		var got []bool
		for _, run := range f.ran() {
			got = append(got, run.Manual)
		}
		if want := []bool{false, true}; !slices.Equal(got, want) {
			t.Errorf("manual: %t, want %t", got, want)
		}
	})
}
