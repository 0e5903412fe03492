//go:build linux

package jobs

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Starter starts the programs of a daemon so that their main processes die with it, whatever
// ends it. The daemon makes one, gives it to every [Command], and closes it after its last run.
//
// The kernel sends a child's parent-death signal (PR_SET_PDEATHSIG in prctl(2)) when the thread
// that made it ends, and the Go runtime ends threads as it likes (golang.org/issue/27505). So
// the Starter keeps one thread for itself, which makes all children and ends last. That costs no
// speed: the runtime forks one child at a time anyway, and waits for its exec. For the same
// reason one program on a file system that hangs holds up all starts, with or without Starter.
//
// A child whose parent is gone before it could ask for the signal kills itself: package syscall
// compares the parent's pid after the prctl.
//
// Only the main process is covered. Its children do not inherit the signal, and the kernel clears
// it for a set-user-ID or set-group-ID program and one with file capabilities.
//
// A Starter is safe for concurrent use.
type Starter struct {
	requests chan startRequest
	closing  chan struct{}
	close    sync.Once
	thread   sync.WaitGroup
	environs *environs
}

var errStarterClosed = errors.New("the starter is closed")

type startRequest struct {
	path  string
	args  []string
	attr  *os.ProcAttr
	reply chan startReply
}

type startReply struct {
	process *os.Process
	err     error
}

// NewStarter returns a Starter with its thread running.
//
// It also marks every descriptor above 2 that the daemon holds as close-on-exec. Those that Go
// opened are; those that the daemon was started with may not be, and must not reach a job.
func NewStarter() *Starter {
	markInherited()
	s := &Starter{
		requests: make(chan startRequest),
		closing:  make(chan struct{}),
		environs: newEnvirons(),
	}
	s.thread.Go(s.run)
	return s
}

// Close ends the Starter; a Command that uses it then fails to start. The thread ends soon
// after, and the kernel kills the main processes that still live: call it after the last run.
func (s *Starter) Close() {
	s.close.Do(func() { close(s.closing) })
	s.thread.Wait()
}

// run is the Starter's goroutine. It returns without unlocking, so that the thread ends and is
// not lent to other goroutines.
func (s *Starter) run() {
	runtime.LockOSThread()
	for {
		select {
		case r := <-s.requests:
			process, err := os.StartProcess(r.path, r.args, r.attr)
			r.reply <- startReply{process, err}
		case <-s.closing:
			return
		}
	}
}

// start is os.StartProcess in the Starter's thread, or where it is called if s is nil. The error
// is errNotStarted if the run ended while it waited for its turn.
func (s *Starter) start(ctx context.Context, kill <-chan struct{}, path string, args []string,
	attr *os.ProcAttr,
) (*os.Process, error) {
	if _, _, over := endOf(ctx, kill); over {
		return nil, errNotStarted
	}
	if s == nil {
		return os.StartProcess(path, args, attr)
	}
	attr.Sys.Pdeathsig = syscall.SIGKILL
	r := startRequest{path, args, attr, make(chan startReply, 1)}
	select {
	case s.requests <- r:
		reply := <-r.reply
		return reply.process, reply.err
	case <-ctx.Done():
		return nil, errNotStarted
	case <-kill:
		return nil, errNotStarted
	case <-s.closing:
		return nil, errStarterClosed
	}
}

// shared is what the runs of a Starter share in looking for processes; without one nothing is.
func (s *Starter) shared() *environs {
	if s == nil {
		return newEnvirons()
	}
	return s.environs
}

// markInherited is best effort: without /proc no Command starts.
func markInherited() {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
