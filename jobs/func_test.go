package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFunc_Outcomes(t *testing.T) {
	broken := errors.New("disk full")
	lost := fmt.Errorf("%w: not ours any more", ErrLost)
	for _, c := range []struct {
		name    string
		cause   error // nil: ctx does not end
		answer  error
		outcome Outcome
		reason  string
	}{
		{"nil is success", nil, nil, Succeeded, ""},
		{"an error is a failure", nil, broken, Failed, "disk full"},
		{"the cause decides over an error", ErrTimedOut, broken, TimedOut, words(ErrTimedOut)},
		{"the cause decides over nil", ErrTimedOut, nil, TimedOut, words(ErrTimedOut)},
		{"the cause's words count", lost, nil, Lost, "lease lost: not ours any more"},
		{"cancelled", ErrCancelled, context.Canceled, Cancelled, words(ErrCancelled)},
		{"interrupted", ErrInterrupted, context.Canceled, Interrupted, words(ErrInterrupted)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				start := time.Now()
				got := Func(func(ctx context.Context, _ Run) error {
					time.Sleep(time.Second)
					if c.cause != nil {
						cancel(c.cause)
						<-ctx.Done()
					}
					return c.answer
				}).Run(ctx, Run{})
				if got.Outcome != c.outcome || got.Reason != c.reason || got.ExitCode != nil {
					t.Errorf("Run = %s, %q, exit code %v; want %s, %q, none",
						got.Outcome, got.Reason, got.ExitCode, c.outcome, c.reason)
				}
				if !got.Started.Equal(start) || got.Ended.Sub(start) != time.Second {
					t.Errorf("started %v, ended %v; want %v and a second later", got.Started, got.Ended, start)
				}
			})
		})
	}
}

func TestFunc_EndedBefore(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	closed := make(chan struct{})
	close(closed)
	for _, c := range []struct {
		name    string
		ctx     context.Context
		kill    <-chan struct{}
		outcome Outcome
	}{
		{"the context", ended, nil, Interrupted},
		{"the lease", t.Context(), closed, Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Func(func(context.Context, Run) error {
				t.Error("the function was called")
				return nil
			}).Run(c.ctx, Run{Kill: c.kill})
			if got.Outcome != c.outcome || !got.Started.IsZero() || got.Ended.IsZero() {
				t.Errorf("Run = %+v; want %s, not started, ended", got, c.outcome)
			}
		})
	}
}

func explode(context.Context, Run) error { panic("boom") }

// Case E25: a panic fails the run alone, and its stack is kept.
func TestFunc_Panic(t *testing.T) {
	t.Run("goes to the output", func(t *testing.T) {
		out := NewOutput(16 << 10)
		got := Func(explode).Run(t.Context(), Run{Output: out})
		if got.Outcome != Failed || got.Reason != "panic: boom" {
			t.Errorf("Run = %s, %q; want failed, panic: boom", got.Outcome, got.Reason)
		}
		if s := out.String(); !strings.HasPrefix(s, "panic: boom\n") || !strings.Contains(s, "jobs.explode") {
			t.Errorf("output %q, want the panic and its stack", s)
		}
	})
	t.Run("or into the reason", func(t *testing.T) {
		got := Func(explode).Run(t.Context(), Run{})
		if got.Outcome != Failed || !strings.HasPrefix(got.Reason, "panic: boom\n") ||
			!strings.Contains(got.Reason, "jobs.explode") {
			t.Errorf("Run = %s, %q; want failed, the panic and its stack", got.Outcome, got.Reason)
		}
	})
	t.Run("and does not hide the cause", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := NewOutput(16 << 10)
		got := Func(func(context.Context, Run) error {
			cancel(ErrLost)
			panic("boom")
		}).Run(ctx, Run{Output: out})
		if want := words(ErrLost) + "; then panic: boom"; got.Outcome != Lost || got.Reason != want {
			t.Errorf("Run = %s, %q; want lost, %q", got.Outcome, got.Reason, want)
		}
	})
	t.Run("nor does Goexit pass for success", func(t *testing.T) {
		got := Func(func(context.Context, Run) error {
			runtime.Goexit()
			return nil
		}).Run(t.Context(), Run{})
		if got.Outcome != Failed || got.Reason != errGoexit.Error() {
			t.Errorf("Run = %s, %q; want failed, %q", got.Outcome, got.Reason, errGoexit)
		}
	})
}

// Case E26: Run stays until a function that ignores its context returns, and then says lost.
func TestFunc_IgnoresContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		kill := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { cancel(ErrLost) })
		time.AfterFunc(10*time.Second, func() { close(kill) })
		start := time.Now()
		got := Func(func(context.Context, Run) error {
			time.Sleep(time.Minute)
			return nil
		}).Run(ctx, Run{Kill: kill})
		if took := time.Since(start); got.Outcome != Lost || took != time.Minute {
			t.Errorf("Run = %s after %v, want lost after 1m0s", got.Outcome, took)
		}
	})
}

func TestFunc_OutputIsThere(t *testing.T) {
	got := Func(func(_ context.Context, run Run) error {
		_, err := fmt.Fprintln(run.Output, "hello")
		return err
	}).Run(t.Context(), Run{})
	if got.Outcome != Succeeded {
		t.Errorf("Run with a nil Output = %s, %q; want succeeded", got.Outcome, got.Reason)
	}
}
