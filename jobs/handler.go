package jobs

import (
	"context"
	"io"
	"time"
)

// A Handler runs one attempt of a job. [Command] starts a program, [HTTP] sends a request, [Func]
// calls Go code; a [Retry] around one of them makes several attempts.
//
// Run blocks until everything the attempt started has ended. It begins to end when ctx is
// done; [context.Cause] then says why, as one of [ErrTimedOut], [ErrLost], [ErrCancelled] and
// [ErrInterrupted], wrapped. It must be gone at once when run.Kill is closed. A Handler is
// used by several goroutines at a time.
type Handler interface {
	Run(ctx context.Context, run Run) Result
}

// Run is what an attempt is told about itself. It is passed by value and never changes; what it points
// to may.
type Run struct {
	Job       string    // the job's name
	ID        string    // the run's id, the same for all its attempts; "": it is no job's, see [Environ]
	Tick      time.Time // the scheduled instant, in UTC; of a manual run the instant it was asked for
	Attempt   int       // from 1
	Manual    bool      // somebody asked for it: it is its own work, not that of a tick
	Token     int64     // the fencing token, to be handed to every store the job writes to
	Lock      string    // the lock's name
	Host      string    // the host that runs it
	Namespace string    // the fleet
	Config    string    // path of the config file, "" if there is none
	Socket    string    // the daemon's socket, on which programs of the run may ask it something; "" if there is none

	// Output takes what the attempt prints, both streams, as it is printed. Nil discards it.
	// The handler calls it from one goroutine at a time, and not after Run has returned. A
	// Write that blocks holds up the program that prints, and in the end Run; after one that
	// fails the rest is discarded.
	Output io.Writer

	// StartBy is when it must have begun, as a reading of CLOCK_BOOTTIME (clock_gettime(2)); zero is at any
	// time. A [Command] whose program could not be started by then is not started: its result is
	// Unstarted. Other handlers begin at once, and ignore it.
	StartBy time.Duration

	// Kill is closed when nothing of the attempt may live any longer, whatever grace it was
	// given before: its lease is about to end. Nil never closes.
	Kill <-chan struct{}

	// Deadlines are the instants by which it has to be gone, unless they are moved before: for a
	// [Command] in a [Warden], which keeps them even if this process does not. Other handlers may
	// ignore them. Nil sets none.
	Deadlines *Deadlines
}
