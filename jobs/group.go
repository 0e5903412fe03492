//go:build linux

package jobs

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The end of processes other than the main one is polled for, ever slower from each event on.
const (
	pollMin = time.Millisecond
	pollMax = 100 * time.Millisecond
)

// A group is the processes of one run.
//
// Its main process stays a zombie until everything else is gone. As long as it does, its pid,
// which is the group's number too, cannot be given to anybody else, and a signal to the group
// cannot hit a stranger.
type group struct {
	main    *os.Process
	members members
	exited  chan struct{} // closed when main has ended; it is a zombie then
	reaping chan struct{} // closed when its pid is given up
	owned   sync.WaitGroup
}

// watch takes main, which leads its own process group, and starts the group's two goroutines:
// one waits for its end, one for kill. reap must follow.
func watch(main *os.Process, members members, kill <-chan struct{}) *group {
	g := &group{main: main, members: members, exited: make(chan struct{}), reaping: make(chan struct{})}
	g.owned.Go(func() {
		// The last SIGKILL before a lease ends waits for no search.
		select {
		case <-kill:
			signalGroup(main.Pid, killSignals)
		case <-g.reaping:
		}
	})
	g.owned.Go(func() {
		defer close(g.exited)
		for {
			// WNOWAIT leaves the zombie, see above. An error other than EINTR says that there
			// is no such child any more.
			err := unix.Waitid(unix.P_PID, main.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return g
}

// end sees to it that no process of the run lives, and returns then: SIGTERM to all, and SIGKILL
// to what is left after grace or when kill is closed. It sends nothing if all have ended already.
// killed tells whether SIGKILL was sent.
func (g *group) end(grace time.Duration, kill <-chan struct{}) (killed bool) {
	if g.gone() {
		return false
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-kill:
	default:
		g.members.signal(termSignals...)
	}
	exited := g.exited
	pause := pollMin
	for !g.gone() {
		var poll <-chan time.Time
		if killed || exited == nil {
			poll = time.After(pause)
		}
		select {
		case <-poll:
			pause = min(2*pause, pollMax)
		case <-exited:
			exited, pause = nil, pollMin
		case <-timer.C:
			killed, pause = true, pollMin
		case <-kill:
			killed, kill, pause = true, nil, pollMin
		}
		if killed {
			// Again each time: what forked between the search and its signal turns up now.
			g.members.signal(killSignals...)
		}
	}
	return killed
}

// gone tells whether nothing of the run lives. As long as /proc cannot be read, it does not know
// and says no.
func (g *group) gone() bool {
	select {
	case <-g.exited:
	default:
		return false
	}
	return !g.members.alive()
}

// reap returns the main process' status, after end, and lets go of the group. The SIGKILL before
// it is for a member that the search in /proc missed because it was forked meanwhile.
func (g *group) reap() (*os.ProcessState, error) {
	close(g.reaping)
	g.owned.Wait()
	signalGroup(g.main.Pid, killSignals)
	return g.main.Wait()
}
