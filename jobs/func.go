package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"
)

// Func is a [Handler] in Go, for programs that have the scheduler in them. Nil means success,
// an error is the reason of a failure. It hands run.Token to every store that it writes to.
//
// If ctx ends before the function returns, the outcome is that of the cause, whatever it
// returns. A panic fails the run, and only the run: its stack goes to run.Output, or into the
// reason if there is none. (A panic in a goroutine that the function started ends the whole
// program; Go gives nobody else the chance to recover it.) run.Output is never nil in it.
//
// Go code cannot be ended from outside: run.Kill does nothing here, and Run does not return
// before the function does. One that ignores ctx keeps its goroutine, and the next run of its
// job on this host waits for it. If ctx has ended already, or run.Kill is closed, it is not called.
type Func func(ctx context.Context, run Run) error

var _ Handler = Func(nil)

// errGoexit stands for a function that neither returned nor panicked.
var errGoexit = errors.New("the handler called runtime.Goexit")

// A panicError is the panic of a handler.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprint("panic: ", e.value) }

// Run calls the function and turns its end into a Result. ExitCode is always nil.
func (f Func) Run(ctx context.Context, run Run) Result {
	if outcome, reason, over := endOf(ctx, run.Kill); over {
		return Result{Outcome: outcome, Reason: reason, Ended: time.Now()}
	}
	started := time.Now()
	err := f.call(ctx, run)
	result := Result{Outcome: Succeeded, Started: started, Ended: time.Now()}
	if err != nil {
		result.Outcome, result.Reason = Failed, err.Error()
	}
	panicked, isPanic := errors.AsType[*panicError](err)
	if outcome, reason, over := endOf(ctx, run.Kill); over {
		result.Outcome, result.Reason = outcome, reason
		if isPanic {
			result.Reason += "; then " + panicked.Error()
		}
	}
	if isPanic {
		if run.Output == nil {
			result.Reason += "\n\n" + strings.TrimRight(string(panicked.stack), "\n")
		} else {
			// The reason stands without it, so an output that fails changes nothing.
			_, _ = fmt.Fprintf(run.Output, "%v\n\n%s", panicked, panicked.stack)
		}
	}
	return result
}

// call runs the function in a goroutine of its own, so that a runtime.Goexit in it (which
// testing.T.FailNow is, too) does not take the caller along.
func (f Func) call(ctx context.Context, run Run) error {
	ended := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if value := recover(); value != nil {
				err = &panicError{value, debug.Stack()}
			}
			ended <- err
		}()
		if run.Output == nil {
			run.Output = io.Discard
		}
		err = f(ctx, run)
	}()
	return <-ended
}
