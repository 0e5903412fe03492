//go:build linux

package jobs

import (
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// packetsAtOnce is how many packets are read before anything else is done.
	packetsAtOnce = 256

	// lastPatience is how long a warden whose daemon is gone tries to kill what will not die: another
	// user's process, or one that hangs in the kernel.
	lastPatience = 10 * time.Second

	// startPatience is how long an exec may take, and how long a start waits for that of another run.
	startPatience = 10 * time.Second

	// collectEvery is after how many rounds of the loop the heap is looked at, collectAbove by how much
	// it may have grown by then, in bytes, and collectBusy the same while there is more to do than a
	// round has time for: the collector's threads have no more priority than others.
	collectEvery = 32
	collectAbove = 1 << 20
	collectBusy  = 32 << 20
)

// A server is the warden's loop and what it knows. One goroutine does everything, so that at each
// instant there is one truth about a run, and so that nothing it waits for can be late but the loop
// itself: it blocks in poll(2) alone.
//
//	wait ──▶ read what the daemon says ──▶ starts done ──▶ who has ended ──▶ deadlines ──▶ say so
//	 ▲                                                                                      │
//	 └──────────────────────────────────────────────────────────────────────────────────────┘
//
// All that the daemon said by the time the loop wakes counts before any deadline is judged: one that
// was moved in time has not passed, even if the warden wakes late. Nothing that is done between two waits
// takes longer than passTime or so, however many processes there are.
type server struct {
	conn  int
	timer int // a timerfd(2) on CLOCK_BOOTTIME, which also wakes from a machine's sleep
	bell  *bell
	died  atomic.Bool // a child has ended since the loop looked

	cgroups  *cgroups // of the daemon's runs; nil: they have none
	spawner  *spawner
	queue    []*served     // to be started
	starting *served       // what the spawner has,
	given    time.Duration // since when,
	told     bool          // and whether the daemon knows that it hangs

	hangsAfter, startPatience time.Duration // the constants, but in tests

	runs    map[runID]*served
	mains   map[int]*served // by main process
	orphans orphans
	ration  ration

	packet []byte
	out    [][]byte // what the daemon has had no room for yet
	armed  time.Duration
	pause  time.Duration // until the next look at ends under way

	closing bool          // the daemon is gone
	giveUp  time.Duration // when closing: until then

	rounds int    // of the loop
	heap   uint64 // its size after the last collection
}

// serve is the loop. It returns true when the daemon is gone and nothing is left.
//
// It has a thread to itself, with priority: of hundreds of processes that use all there is of the machine none
// may live longer because its turn comes before the loop's. While one is started it has none: that work is the
// spawner's, which would wait for it. The runtime starts no thread from one that a goroutine has to itself, so
// nobody else gets that thread's priority.
func (s *server) serve() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := newPace()
	for {
		p.hurry(s.starting == nil || s.busy() || s.unfinished())
		s.flush()
		s.wait()
		s.read()
		if j := s.spawner.take(); j != nil {
			s.spawned(j)
		}
		s.answered()
		s.settle()
		s.startNext()
		s.collect()
		if s.closing {
			if left := s.killAll(); !left && len(s.runs) == 0 && s.starting == nil {
				return true
			}
			if boottime() >= s.giveUp {
				return false
			}
		}
	}
}

// wait blocks until there is something to do.
func (s *server) wait() {
	s.arm()
	fds := []unix.PollFd{
		{Fd: int32(s.bell.fd), Events: unix.POLLIN},
		{Fd: int32(s.timer), Events: unix.POLLIN},
		{Fd: int32(s.conn), Events: unix.POLLIN},
	}
	if len(s.out) > 0 {
		fds[2].Events |= unix.POLLOUT
	}
	if s.closing {
		fds = fds[:2]
	}
	timeout := -1
	switch {
	case s.unfinished():
		timeout = 0
	case s.busy():
		timeout = int(max(s.pause, pollMin) / time.Millisecond)
		s.pause = min(2*max(s.pause, pollMin), pollMax)
	default:
		s.pause = pollMin
	}
	if n, err := unix.Poll(fds, timeout); err != nil || n == 0 {
		return
	}
	if fds[0].Revents != 0 {
		s.bell.quiet()
		s.pause = pollMin
	}
	if fds[1].Revents != 0 {
		_, _ = unix.Read(s.timer, make([]byte, 8))
		s.armed = 0
	}
}

// busy tells whether there are ends under way that must be looked after: what is left of a run does
// not say when it ends, if it is not the warden's own child.
func (s *server) busy() bool {
	for _, r := range s.runs {
		if r.life.exited || r.life.stage == killing && !r.job.struck || r.confined.sends() {
			return true
		}
	}
	return s.closing || s.orphans.sweep.again
}

// unfinished tells whether there are looks under way that had no more time in this round.
func (s *server) unfinished() bool {
	if s.orphans.sweep.open {
		return true
	}
	for _, r := range s.mains {
		if r.family.walk != nil {
			return true
		}
	}
	return false
}

// arm sets the timer to the next deadline.
func (s *server) arm() {
	var next time.Duration
	for _, r := range s.runs {
		next = earlier(next, r.life.wake())
		if at, _ := s.startLimit(r); at != never {
			next = earlier(next, at)
		}
	}
	if s.starting != nil && !s.told {
		next = earlier(next, s.given+s.hangsAfter)
	}
	if next == s.armed || next == never {
		return
	}
	// An instant that has passed fires at once; zero disarms (timerfd_create(2)).
	value := unix.NsecToTimespec(int64(next))
	if unix.TimerfdSettime(s.timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: value}, nil) == nil {
		s.armed = next
	}
}

// post sends a message to the daemon, now or when there is room.
func (s *server) post(m message) {
	if !s.closing {
		s.out = append(s.out, m.append(nil))
	}
}

// flush sends what there is room for.
func (s *server) flush() {
	for len(s.out) > 0 {
		err := send(s.conn, s.out[0])
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			s.close()
			return
		}
		s.out = s.out[1:]
	}
	s.out = nil
}

// close begins the warden's end: every run is killed, nothing more is started.
func (s *server) close() {
	if s.closing {
		return
	}
	s.closing, s.out = true, nil
	now := boottime()
	s.giveUp = now + lastPatience
	for _, r := range s.runs {
		r.life.ask(now, -1)
	}
	unix.Close(s.conn)
}

// killAll kills whatever is left below the warden, runs or not, and tells whether there was anything.
func (s *server) killAll() (found bool) {
	o := &s.orphans
	s.ration.begin()
	s.refresh()
	found = o.sweep.pending() || len(o.all) > 0
	for _, orph := range o.all {
		_ = unix.Kill(orph.pid, unix.SIGKILL) // also one that /proc does not show
	}
	o.tree.below(os.Getpid(), func(p process, _ procStat) {
		found = true
		o.tree.signal(p, killSignals)
	})
	return found
}

// collect runs the garbage collector, if there is something to collect and no start under way, which
// it would wait for with everything else stopped: a thread that waits for an exec cannot be.
func (s *server) collect() {
	if s.rounds++; s.rounds < collectEvery || s.starting != nil {
		return
	}
	s.rounds = 0
	above := uint64(collectAbove)
	if s.unfinished() {
		above = collectBusy
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(heap); heap[0].Value.Uint64() > s.heap+above {
		runtime.GC()
		metrics.Read(heap)
		s.heap = heap[0].Value.Uint64()
	}
}
