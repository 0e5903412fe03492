//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A fakeWarden is the other end of a link, which does only what a test tells it to.
type fakeWarden struct {
	t    *testing.T
	conn *os.File
	link *link
}

// newFakeWarden says ready. Closing it is the end of a warden.
func newFakeWarden(t *testing.T) *fakeWarden {
	t.Helper()
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeWarden{t: t, conn: theirs}
	f.say(readyMessage{})
	f.link, err = newLink(ours, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.link.fail(errWardenClosed)
		f.link.disconnect()
		f.link.giveUp()
		theirs.Close()
	})
	return f
}

func (f *fakeWarden) say(m message) { f.send(m.append(nil)) }

func (f *fakeWarden) send(packet []byte) {
	f.t.Helper()
	if err := send(int(f.conn.Fd()), packet); err != nil {
		f.t.Fatal(err)
	}
}

// hear returns the next message of the daemon that is no ping, which it answers.
func (f *fakeWarden) hear() message {
	f.t.Helper()
	var heard message
	eventually(f.t, "a message", func() bool {
		packet, fds, err := receive(int(f.conn.Fd()), make([]byte, maxPacket))
		closeAll(fds)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err == nil {
			heard, err = decode(packet)
		}
		if err != nil {
			f.t.Fatal(err)
		}
		if ping, ok := heard.(pingMessage); ok {
			f.say(pongMessage(ping))
			return false
		}
		return true
	})
	return heard
}

// broken waits for the link to break and returns why, and how long that took.
func (f *fakeWarden) broken(began time.Time) (string, time.Duration) {
	f.t.Helper()
	select {
	case <-f.link.broken:
		return f.link.why.Error(), time.Since(began)
	case <-time.After(10 * time.Second):
		f.t.Fatal("the link holds")
		return "", 0
	}
}

func (f *fakeWarden) start() *ward {
	f.t.Helper()
	wd, err := f.link.start(&spec{run: "r", path: "/bin/true", dir: "/"}, nil, startMessage{})
	if err != nil {
		f.t.Fatal(err)
	}
	return wd
}

func TestLink_Breaks(t *testing.T) {
	for _, c := range []struct {
		name  string
		do    func(f *fakeWarden)
		why   string
		least time.Duration
	}{
		{"when the warden ends", func(f *fakeWarden) { f.conn.Close() }, "it has ended", 0},
		{"when it says nothing that can be", func(f *fakeWarden) { f.send([]byte{99}) }, "malformed message of kind 99, 1 bytes", 0},
		{"when it says the daemon's words", func(f *fakeWarden) { f.say(endMessage{1, 0}) }, "malformed message", 0},
		{"when it does not answer", func(f *fakeWarden) { f.start() }, "it has not answered for 1s", answerPatience},
		{"when it makes no room", func(f *fakeWarden) {
			wd := f.start()
			for range 1 << 16 {
				wd.end(time.Second)
			}
		}, "it has made no room for 1s", answerPatience},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFakeWarden(t)
			began := time.Now()
			c.do(f)
			why, took := f.broken(began)
			if why != c.why || took < c.least || took > c.least+slack {
				t.Errorf("broken after %v: %q; want after %v: %q", took, why, c.least, c.why)
			}
		})
	}
}

// Whoever has something to say never waits, whatever the warden does.
func TestLink_NeverBlocks(t *testing.T) {
	f := newFakeWarden(t)
	wards := make([]*ward, 100)
	for i := range wards {
		wards[i] = f.start()
	}
	var longest time.Duration
	for i := range 1 << 16 {
		began := time.Now()
		wd := wards[i%len(wards)]
		wd.move(time.Duration(i), time.Duration(i)+1)
		wd.end(time.Duration(i))
		longest = max(longest, time.Since(began))
	}
	if longest >= answerPatience {
		t.Errorf("a caller waited %v for a warden that reads nothing", longest)
	}
	f.broken(time.Now())
	if _, err := f.link.start(&spec{}, nil, startMessage{}); !errors.Is(err, errBroken) {
		t.Errorf("start on a broken link = %v, want errBroken", err)
	}
	f.link.disconnect()
	f.link.giveUp()
	for _, wd := range wards {
		<-wd.over
		if wd.lost == nil {
			t.Error("a ward is over and not lost")
		}
	}
}

// Many moves of many runs go in few packets, the last of each run counts.
func TestLink_MovesTogether(t *testing.T) {
	f := newFakeWarden(t)
	wards := make([]*ward, 10)
	for i := range wards {
		wards[i] = f.start()
		if m, ok := f.hear().(startMessage); !ok || m.run != wards[i].id {
			t.Fatalf("heard %+v, want the start of %d", m, wards[i].id)
		}
	}
	last := map[runID]leaseTimes{}
	for i := range 100 {
		for k, wd := range wards {
			lease := leaseTimes{time.Duration(i + 1), time.Duration(k)}
			last[wd.id] = lease
			wd.move(lease.term, lease.kill)
		}
	}
	packets, got := 0, map[runID]leaseTimes{}
	for len(got) < len(wards) || slices.ContainsFunc(wards, func(wd *ward) bool { return got[wd.id] != last[wd.id] }) {
		m, ok := f.hear().(moveMessage)
		if !ok {
			t.Fatalf("heard %+v, want moves", m)
		}
		for _, mv := range m {
			got[mv.run] = mv.lease
		}
		packets++
	}
	if packets >= 1000 {
		t.Errorf("%d packets for 1000 moves, want them together", packets)
	}
}

// What is said of one run arrives in the order it was said in, also when its start had to wait for room and
// there is some by the time that its end is said.
func TestLink_KeepsOrder(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{conn: ours, raw: raw, wake: make(chan struct{}, 1), broken: make(chan struct{}), wards: map[runID]*ward{}, moves: map[runID]leaseTimes{}}
	for send(int(ours.Fd()), pingMessage{}.append(nil)) == nil {
	}
	wd, err := l.start(&spec{path: "/bin/true", dir: "/"}, nil, startMessage{})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := l.pending() // the writer has it, and waits
	buf := make([]byte, maxPacket)
	for err == nil {
		_, _, err = receive(int(theirs.Fd()), buf)
	}
	wd.end(-1)
	if err := l.sendWithin(p); err != nil {
		t.Fatal(err)
	}
	l.sent(p)
	for p, ok := l.pending(); ok; p, ok = l.pending() {
		if err := l.sendWithin(p); err != nil {
			t.Fatal(err)
		}
		l.sent(p)
	}
	var got []string
	for {
		packet, _, err := receive(int(theirs.Fd()), buf)
		if err != nil {
			break
		}
		m, err := decode(packet)
		got = append(got, fmt.Sprintf("%T %v", m, err))
	}
	if want := []string{"jobs.startMessage <nil>", "jobs.endMessage <nil>"}; !slices.Equal(got, want) {
		t.Errorf("the warden hears %q, want %q", got, want)
	}
}

// What is said of runs that are over, or twice, changes nothing.
func TestLink_LateWords(t *testing.T) {
	f := newFakeWarden(t)
	wd := f.start()
	f.say(startedMessage{run: wd.id, pid: 1, at: boottime()})
	<-wd.began
	f.say(startedMessage{run: wd.id, pid: 1, at: boottime()})
	f.say(endedMessage{run: wd.id, status: 3 << 8, at: boottime()})
	<-wd.over
	f.say(endedMessage{run: wd.id})
	f.say(failedMessage{run: wd.id})
	f.say(startedMessage{run: wd.id + 100})
	wd.move(1, 2)
	wd.end(-1)
	next := f.start()
	f.say(failedMessage{run: next.id, why: failedLate})
	<-next.over
	if wd.ended == nil || wd.ended.status != 3<<8 || next.failed == nil || next.failed.why != failedLate {
		t.Errorf("wards: %+v and %+v, want the first words about each", wd.ended, next.failed)
	}
}

func TestNewLink_WaitsForReady(t *testing.T) {
	for name, do := range map[string]func(*os.File){
		"it ends":                func(f *os.File) { f.Close() },
		"it says something else": func(f *os.File) { _ = send(int(f.Fd()), pongMessage{1}.append(nil)) },
	} {
		ours, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		do(theirs)
		if _, err := newLink(ours, nil, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("newLink when %s = nil, want an error", name)
		}
		ours.Close()
		theirs.Close()
	}
}

// Each row is looks at a clock, with what came in between.
func TestSilence_Look(t *testing.T) {
	const ms = time.Millisecond
	type look struct {
		after   time.Duration // since the look before
		pong    uint32
		running bool
	}
	for _, c := range []struct {
		name  string
		looks []look
		want  string // of each look: p a ping, b broken, . nothing
	}{
		{"nothing runs", []look{{250 * ms, 0, false}, {4000 * ms, 0, false}, {750 * ms, 0, false}}, "..p"},
		{"a run begins", []look{{100 * ms, 0, true}, {150 * ms, 0, true}}, ".p"},
		{"it answers", []look{{250 * ms, 0, true}, {250 * ms, 1, true}, {250 * ms, 2, true}, {250 * ms, 3, true}}, "pppp"},
		{"it answers late", []look{{250 * ms, 0, true}, {250 * ms, 0, true}, {250 * ms, 0, true}, {250 * ms, 1, true}}, "p..p"},
		{"it does not answer", []look{{250 * ms, 0, true}, {250 * ms, 0, true}, {250 * ms, 0, true}, {250 * ms, 0, true}, {250 * ms, 0, true}}, "p...b"},
		{"it does not answer, and the run is over", []look{{250 * ms, 0, true}, {250 * ms, 0, false}, {250 * ms, 0, false}, {250 * ms, 0, false}, {250 * ms, 0, false}}, "p...b"},
		{"the daemon slept for a minute", []look{{250 * ms, 0, true}, {time.Minute, 0, true}, {250 * ms, 1, true}}, "p.p"},
		{"the daemon slept, the warden is gone", []look{{250 * ms, 0, true}, {time.Minute, 0, true}, {250 * ms, 0, true}, {250 * ms, 0, true}}, "p..b"},
		{"an old answer is none", []look{{250 * ms, 0, true}, {250 * ms, 1, true}, {500 * ms, 1, true}, {500 * ms, 1, true}}, "pp.b"},
	} {
		now := time.Now()
		s := silence{looked: now, pinged: now}
		var got strings.Builder
		for _, l := range c.looks {
			now = now.Add(l.after)
			switch ping, broken := s.look(now, l.pong, l.running); {
			case broken:
				got.WriteByte('b')
			case ping:
				got.WriteByte('p')
			default:
				got.WriteByte('.')
			}
		}
		if got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.String(), c.want)
		}
	}
}

// fill leaves no room in a connection.
func (f *fakeWarden) fill() {
	for send(int(f.link.conn.Fd()), moveMessage{}.append(nil)) == nil {
	}
}

// A start that had found no room when its warden was lost is the next one's.
func TestWarden_HandsOn(t *testing.T) {
	f, next := newFakeWarden(t), startWarden(t)
	w := &Warden{log: slog.New(slog.DiscardHandler), closing: make(chan struct{}), changed: make(chan struct{}), link: f.link}
	f.fill()
	run, out := testRun(t)
	ended := make(chan Result, 1)
	go func() { ended <- in(w, "echo", "here").Run(t.Context(), run) }()
	cancelled, stop := context.WithCancelCause(t.Context())
	other, _ := testRun(t)
	go func() { ended <- in(w, "echo").Run(cancelled, other) }()
	eventually(t, "both wait for room", func() bool { return f.link.running() == 2 })
	stop(ErrCancelled)
	f.conn.Close()
	<-f.link.broken
	f.link.disconnect()
	f.link.giveUp()
	check(t, "the one that was cancelled", <-ended, Cancelled, -1, words(ErrCancelled))
	w.set(next.link)
	check(t, "the other one", <-ended, Succeeded, 0, "")
	if out.String() != "here\n" {
		t.Errorf("it printed %q, want what the next warden's run prints", out)
	}
}

// What the kernel says of the connection is not what it says of a program, and ends no other run.
func TestLink_RefusesOne(t *testing.T) {
	f := newFakeWarden(t)
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	const want = "hand the run to the warden: bad file descriptor"
	noErrno := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[unix.Errno](err); ok || err == nil || err.Error() != want {
			t.Errorf("it is refused with %v (an errno: %v), want %q", err, ok, want)
		}
	}
	_, err = f.link.start(&spec{path: "/bin/true", dir: "/"}, []*os.File{closed}, startMessage{})
	noErrno(err)

	f.fill()
	// One that goes bad while it waits. Its number is so high that nobody else gets it meanwhile.
	number, err := unix.FcntlInt(f.conn.Fd(), unix.F_DUPFD_CLOEXEC, 900)
	if err != nil {
		t.Fatal(err)
	}
	open := os.NewFile(uintptr(number), "open")
	wd, err := f.link.start(&spec{path: "/bin/true", dir: "/"}, []*os.File{open}, startMessage{})
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(number)
	defer open.Close()
	for heard := false; !heard; {
		select {
		case <-wd.over:
			noErrno(wd.refused)
			heard = true
		default:
			f.hear() // makes room
		}
	}
	if f.link.isBroken() {
		t.Errorf("the link is broken: %v", f.link.why)
	}
}

// Who finds the connection closed says so to all, and nobody tries it again.
func TestLink_BreaksOnASend(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs.Close()
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{conn: ours, raw: raw, wake: make(chan struct{}, 1), broken: make(chan struct{}), wards: map[runID]*ward{}, moves: map[runID]leaseTimes{}}
	if _, err := l.start(&spec{path: "/bin/true", dir: "/"}, nil, startMessage{}); !errors.Is(err, errBroken) {
		t.Errorf("start = %v, want errBroken", err)
	}
	if !l.isBroken() || !errors.Is(l.why, errEnded) {
		t.Errorf("after it the link is broken: %v, %v; want it broken, because the warden has ended", l.isBroken(), l.why)
	}
}
