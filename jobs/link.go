//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerPatience is how long the warden may leave the daemon without room or without an answer.
	answerPatience = time.Second

	// pingEvery is the distance of pings while there are runs, pingIdle while there are none.
	pingEvery = 250 * time.Millisecond
	pingIdle  = 5 * time.Second
)

var (
	// errBroken: the connection was broken before the message could be sent.
	errBroken = errors.New("jobs: the connection to the warden is broken")

	errEnded = errors.New("it has ended")
)

// A link is the daemon's connection to one warden, from its start to its loss. It never blocks whoever
// has something to say: what finds no room waits in the link, whose goroutines alone wait for the
// warden. There are two of them, and disconnect waits for both: one reads, one writes and counts how
// long the warden has been silent.
type link struct {
	proc  *os.Process
	ended chan struct{} // closed when the process is, and reaped
	exit  error         // how it ended, if not well; set before
	marks marks
	log   *slog.Logger
	conn  *os.File
	raw   syscall.RawConn
	work  sync.WaitGroup

	wake   chan struct{} // the writer has something to do
	broken chan struct{} // closed by fail
	why    error         // set before broken is closed

	ponged atomic.Uint32 // the last pong

	mu    sync.Mutex
	wards map[runID]*ward
	last  runID
	out   []parcel
	moves map[runID]leaseTimes
}

// A parcel is a packet and its descriptors, which are somebody else's.
type parcel struct {
	packet []byte
	files  []*os.File
	ward   *ward // of a start
	waited bool  // it is the first that found no room
}

// newLink makes the link and waits until the warden serves.
func newLink(conn *os.File, proc *os.Process, log *slog.Logger) (*link, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &link{
		proc: proc, log: log, conn: conn, raw: raw,
		wake: make(chan struct{}, 1), broken: make(chan struct{}), ended: make(chan struct{}),
		wards: map[runID]*ward{}, moves: map[runID]leaseTimes{},
	}
	if err := conn.SetReadDeadline(time.Now().Add(launchPatience)); err != nil {
		return nil, err
	}
	m, err := l.next(make([]byte, maxPacket))
	if err != nil {
		return nil, fmt.Errorf("it does not answer: %w", err)
	}
	ready, ok := m.(readyMessage)
	if !ok {
		return nil, errMalformed
	}
	l.marks = marks{base: ready.marks}
	_ = conn.SetReadDeadline(time.Time{})
	l.work.Go(l.read)
	l.work.Go(l.write)
	return l, nil
}

// fail breaks the link off. The first reason stays.
func (l *link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(why)
}

func (l *link) failLocked(why error) {
	if hungUp(why) {
		why = errEnded
	}
	if !l.isBroken() {
		l.why = why
		close(l.broken)
	}
}

// hungUp tells an error that says that there is nobody at the other end.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}

func (l *link) isBroken() bool {
	select {
	case <-l.broken:
		return true
	default:
		return false
	}
}

// disconnect closes the connection of a link that has failed and waits for its goroutines.
func (l *link) disconnect() {
	l.conn.Close()
	l.work.Wait()
}

// giveUp ends the wards that the warden said nothing more about, after disconnect. Their processes are
// dead; those of which the warden never heard may have another one.
func (l *link) giveUp() {
	l.mu.Lock()
	wards := l.wards
	l.wards = map[runID]*ward{}
	for _, p := range l.out {
		if p.ward != nil {
			p.ward.unsent = true
		}
	}
	l.out = nil
	l.mu.Unlock()
	for _, wd := range wards {
		_ = closeFile(wd.memory)
		wd.lost = l.why
		wd.finish()
	}
}

func (l *link) running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wards)
}

// runNames are the ROTA_RUN of the runs that are not over.
func (l *link) runNames() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]bool{}
	for _, wd := range l.wards {
		if wd.run != "" {
			names[wd.run] = true
		}
	}
	return names
}

// start sends a start. The error is errBroken if it was not sent because there is nobody to send it to. Any
// other one is no exec's, and matches no errno.
func (l *link) start(s *spec, files []*os.File, m startMessage) (*ward, error) {
	body := s.encode()
	if len(body) > maxSpec {
		return nil, unix.E2BIG // what exec would say
	}
	m.files = uint8(len(files))
	var memory *os.File
	m.spec, m.specLen = body, uint32(len(body))
	if len(m.append(nil)) > maxPacket {
		var err error
		if memory, err = inMemory(body); err != nil {
			return nil, handOverError(err)
		}
		m.spec, files = nil, append(slices.Clip(files), memory)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isBroken() {
		return nil, errors.Join(errBroken, closeFile(memory))
	}
	l.last++
	m.run = l.last
	wd := &ward{link: l, id: m.run, run: s.run, lease: m.lease, memory: memory, began: make(chan struct{}), over: make(chan struct{})}
	switch err := l.post(parcel{packet: m.append(nil), files: files, ward: wd}); {
	case err == nil:
		l.wards[wd.id] = wd
		return wd, nil
	case hungUp(err):
		l.failLocked(err) // so that nobody tries it here again
		return nil, errBroken
	default:
		return nil, handOverError(err)
	}
}

// handOverError is why a run could not be handed to the warden. Its errno is not exec's: too many
// descriptors on their way (ETOOMANYREFS in sendmsg(2)), no memory.
func handOverError(err error) error {
	return fmt.Errorf("hand the run to the warden: %s", err) //nolint:errorlint // see above
}
