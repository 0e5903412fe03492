package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// script is a Handler whose attempts take a second each and end as it says, the last one for ever.
type script struct {
	mu    sync.Mutex
	ends  []Outcome
	runs  []Run
	times []time.Time // when each attempt began
}

func (s *script) Run(_ context.Context, run Run) Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.runs)
	s.runs, s.times = append(s.runs, run), append(s.times, time.Now())
	result := Result{Outcome: s.ends[min(n, len(s.ends)-1)], Started: time.Now(), ExitCode: new(n + 1)}
	result.CPU, result.PeakMemoryBytes = time.Second, int64(100-n)
	time.Sleep(time.Second)
	if result.Ended = time.Now(); result.Outcome != Succeeded {
		result.Reason = fmt.Sprint("reason ", n+1)
	}
	return result
}

func (s *script) Grace() time.Duration { return 7 * time.Second }

func TestRetry_Outcomes(t *testing.T) {
	for _, c := range []struct {
		name     string
		retries  int
		ends     []Outcome
		attempts int
		outcome  Outcome
		reason   string
	}{
		{"success is not tried again", 3, []Outcome{Succeeded}, 1, Succeeded, ""},
		{"failures are, until one succeeds", 3, []Outcome{Failed, Failed, Succeeded}, 3, Succeeded, ""},
		{"or until none is left", 2, []Outcome{Failed}, 3, Failed, "reason 3"},
		{"none", 0, []Outcome{Failed}, 1, Failed, "reason 1"},
		{"less than none", -1, []Outcome{Failed}, 1, Failed, "reason 1"},
		{"a timeout ends the run", 3, []Outcome{TimedOut}, 1, TimedOut, "reason 1"},
		{"so does a lost lease", 3, []Outcome{Failed, Lost}, 2, Lost, "reason 2"},
		{"and a cancel", 3, []Outcome{Cancelled}, 1, Cancelled, "reason 1"},
		{"and an interruption", 3, []Outcome{Interrupted}, 1, Interrupted, "reason 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{ends: c.ends}
				start := time.Now()
				got := Retry{Handler: s, Retries: c.retries, Backoff: time.Second, Max: time.Minute}.Run(t.Context(), Run{
					Job: "a", ID: "01JD", Attempt: 1, Token: 7, Lock: "l",
				})
				if got.Outcome != c.outcome || got.Reason != c.reason || got.Attempt != c.attempts || *got.ExitCode != c.attempts {
					t.Errorf("Run = %s, %q, attempt %d, exit code %d; want %s, %q, %d, %d",
						got.Outcome, got.Reason, got.Attempt, *got.ExitCode, c.outcome, c.reason, c.attempts, c.attempts)
				}
				if got.CPU != time.Duration(c.attempts)*time.Second || got.PeakMemoryBytes != 100 {
					t.Errorf("used %v of CPU time, %d bytes at most; want that of %d attempts, 100", got.CPU, got.PeakMemoryBytes, c.attempts)
				}
				if !got.Started.Equal(start) || !got.Ended.Equal(time.Now()) {
					t.Errorf("started %v, ended %v; want the first attempt's start %v and now, %v", got.Started, got.Ended, start, time.Now())
				}
				if len(s.runs) != c.attempts {
					t.Fatalf("%d attempts, want %d", len(s.runs), c.attempts)
				}
				for i, run := range s.runs {
					if want := (Run{Job: "a", ID: "01JD", Attempt: i + 1, Token: 7, Lock: "l"}); run != want {
						t.Errorf("attempt %d was told %+v, want %+v", i+1, run, want)
					}
				}
			})
		})
	}
}

// The waits before each retry are spread evenly below their bound, which doubles up to Max.
func TestRetry_Waits(t *testing.T) {
	for _, c := range []struct {
		backoff, most time.Duration
		bounds        []time.Duration
	}{
		{time.Second, 5 * time.Minute, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{time.Second, 3 * time.Second, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}},
		{time.Minute, time.Second, []time.Duration{time.Second, time.Second}},
		{0, time.Minute, []time.Duration{0, 0, 0}},
		{time.Hour, 0, []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour}},
	} {
		t.Run(fmt.Sprint(c.backoff, "/", c.most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const runs = 200
				waits := make([][]time.Duration, len(c.bounds))
				for range runs {
					s := &script{ends: []Outcome{Failed}}
					Retry{Handler: s, Retries: len(c.bounds), Backoff: c.backoff, Max: c.most}.Run(t.Context(), Run{})
					for i := range c.bounds {
						waits[i] = append(waits[i], s.times[i+1].Sub(s.times[i])-time.Second)
					}
				}
				for i, bound := range c.bounds {
					slices.Sort(waits[i])
					least, half, most := waits[i][0], waits[i][runs/2], waits[i][runs-1]
					// Of 200 even draws the median is within a fifth of the middle but once in 10⁸ tests.
					if least < 0 || most > bound || half < bound*3/10 || half > bound*7/10 || least > bound/10 || most < bound*9/10 {
						t.Errorf("before retry %d: waits from %v to %v, median %v; want them even from 0 to %v", i+1, least, most, half, bound)
					}
				}
			})
		})
	}
}

// However many retries there are, a bound does not overflow into no wait at all, or a negative one.
func TestRetry_WaitsDoNotOverflow(t *testing.T) {
	for _, most := range []time.Duration{0, math.MaxInt64 - 1, 5 * time.Minute} {
		r := Retry{Backoff: time.Hour, Max: most}
		longest := time.Duration(0)
		for n := range 1000 {
			d := r.wait(n + 1)
			if longest = max(longest, d); d < 0 || most > 0 && d > most {
				t.Fatalf("wait(%d) = %v with Max %v", n+1, d, most)
			}
		}
		if longest < most/2 {
			t.Errorf("the longest of 1000 waits is %v, want it near Max, %v", longest, most)
		}
	}
}

// A run that is over makes no further attempt: not if it ended in a wait, nor if that was just when
// an attempt failed.
func TestRetry_NeverAfterTheEnd(t *testing.T) {
	for _, at := range []time.Duration{time.Second, 90 * time.Minute} {
		for _, c := range []struct {
			cause   error // nil: Kill
			outcome Outcome
		}{
			{ErrTimedOut, TimedOut},
			{ErrCancelled, Cancelled},
			{ErrInterrupted, Interrupted},
			{ErrLost, Lost},
			{nil, Lost},
		} {
			t.Run(fmt.Sprint(at, "/", c.cause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					kill := make(chan struct{})
					time.AfterFunc(at, func() {
						if c.cause == nil {
							close(kill)
						} else {
							cancel(c.cause)
						}
					})
					s := &script{ends: []Outcome{Failed}}
					start := time.Now()
					// A wait of up to 290 years: none is over at that time.
					got := Retry{Handler: s, Retries: 5, Backoff: math.MaxInt64}.Run(ctx, Run{Kill: kill})
					why := ErrLost
					if c.cause != nil {
						why = c.cause
					}
					if want := words(why) + "; attempt 1 had failed: reason 1"; got.Outcome != c.outcome || got.Reason != want || got.Attempt != 1 {
						t.Errorf("Run = %s, %q, attempt %d; want %s, %q, 1", got.Outcome, got.Reason, got.Attempt, c.outcome, want)
					}
					if took := time.Since(start); took != at || !got.Ended.Equal(time.Now()) || len(s.runs) != 1 {
						t.Errorf("Run took %v, ended %v ago, %d attempts; want %v, now, 1", took, time.Since(got.Ended), len(s.runs), at)
					}
				})
			})
		}
	}
}

func TestRetry_OutputTellsTheAttemptsApart(t *testing.T) {
	prints := []string{"first\n", "second", ""}
	n := 0
	h := Func(func(_ context.Context, run Run) error {
		_, _ = io.WriteString(run.Output, prints[n])
		n++
		return errors.New("disk full")
	})
	out := NewOutput(16 << 10)
	got := Retry{Handler: h, Retries: 2}.Run(t.Context(), Run{Attempt: 1, Output: out})
	want := "first\n[attempt 1 failed: disk full; attempt 2 in 0s]\nsecond\n[attempt 2 failed: disk full; attempt 3 in 0s]\n"
	if got.Reason != "disk full" || out.String() != want {
		t.Errorf("reason %q, output %q; want disk full, %q", got.Reason, out, want)
	}
	n = 0
	if got := (Retry{Handler: h, Retries: 2}).Run(t.Context(), Run{}); got.Attempt != 3 {
		t.Errorf("without an Output: attempt %d, want 3", got.Attempt)
	}
}

// Attempts that never started say nothing of when the run did.
func TestRetry_StartedByTheFirstThatDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second time.Time
		n := 0
		got := Retry{Retries: 2, Handler: handlerFunc(func() Result {
			time.Sleep(time.Second)
			n++
			switch n {
			case 1:
				return Result{Outcome: Failed}
			case 2:
				second = time.Now()
			}
			return Result{Outcome: Failed, Started: time.Now()}
		})}.Run(t.Context(), Run{})
		if !got.Started.Equal(second) || second.IsZero() {
			t.Errorf("started %v, want the second attempt's start, %v", got.Started, second)
		}
	})
}

// A handlerFunc is a Handler that is told nothing.
type handlerFunc func() Result

func (f handlerFunc) Run(context.Context, Run) Result { return f() }

func TestRetry_Grace(t *testing.T) {
	if got := (Retry{Handler: new(script)}).Grace(); got != 7*time.Second {
		t.Errorf("Grace() = %v, want that of its handler, 7s", got)
	}
	if got := (Retry{Handler: HTTP{}}).Grace(); got != 0 {
		t.Errorf("Grace() = %v of a handler that says nothing, want 0s", got)
	}
}

// Case W05: retries and a timeout make no more requests than there are attempts, all with one token
// and one key; a run that is out of time asks no more.
func TestRetry_OfHTTP(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var mu sync.Mutex
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Rota-Fencing-Token")+" "+r.Header.Get("Rota-Attempt"))
		mu.Unlock()
		if r.URL.Path == "/slow" {
			cancel(ErrTimedOut)
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	const same = "hook/2026-11-29T02:00:00Z 1795968430725800 "
	run, out := requestRun()
	got := Retry{Handler: HTTP{URL: url, Body: "x"}, Retries: 2}.Run(t.Context(), run)
	wantHTTP(t, "three refusals", got, Failed, "status 503 Service Unavailable")
	if want := []string{same + "1", same + "2", same + "3"}; got.Attempt != 3 || !slices.Equal(asked, want) {
		t.Errorf("attempt %d, requests %q; want 3, %q", got.Attempt, asked, want)
	}
	if n := strings.Count(out.String(), "[attempt "); n != 2 {
		t.Errorf("output %q, want a line for each of 2 retries", out)
	}

	mu.Lock()
	asked = nil
	mu.Unlock()
	got = Retry{Handler: HTTP{URL: url + "/slow"}, Retries: 2}.Run(ctx, run)
	wantHTTP(t, "a server that is slow", got, TimedOut, "timed out; no answer had come")
	mu.Lock()
	defer mu.Unlock()
	if want := []string{same + "1"}; got.Attempt != 1 || !slices.Equal(asked, want) {
		t.Errorf("attempt %d, requests %q; want 1, %q", got.Attempt, asked, want)
	}
}
