//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// samples has each kind of message, with values at their limits.
func samples() []message {
	body := (&spec{run: "01JD", path: "/bin/true", dir: "/", args: []string{"true", ""}, env: []string{"A=ü\x00", "B="}}).encode()
	slate := (&spec{
		path: "/bin/true", args: []string{"true"},
		as: &identity{0, 1<<32 - 2, []uint32{0, 4, 1<<32 - 2}}, umask: new(0o777), nice: new(-20),
	}).encode()
	return []message{
		startMessage{run: 1, lease: leaseTimes{2, 3}, startBy: 4, grace: never, files: 1, spec: body, specLen: uint32(len(body)), limits: Limits{1, math.MaxInt, 3}},
		startMessage{run: 2, files: standardFiles, spec: slate, specLen: uint32(len(slate))},
		startMessage{run: math.MaxUint32, lease: leaseTimes{}, grace: 0, specLen: maxSpec, spec: []byte{}},
		moveMessage{{1, leaseTimes{2, 3}}, {math.MaxUint32, leaseTimes{never, -1}}},
		moveMessage{},
		endMessage{1, -1},
		signalMessage{1, uint32(unix.SIGHUP)},
		pingMessage{7},
		pongMessage{8},
		readyMessage{math.MaxUint64},
		startedMessage{1, math.MaxInt32, time.Hour},
		failedMessage{1, failedExec, uint32(unix.E2BIG)},
		failedMessage{1, failedNice, uint32(unix.EACCES)},
		failedMessage{1, failedBehind, 0},
		hangsMessage{1},
		endedMessage{1, 0x8b, time.Hour, byDeadline, true, usage{time.Second, 1 << 40}, "killed"},
		endedMessage{run: 1},
		strayMessage{4711, strayLate, "a b\x00"},
		flawMessage{1, flawLeft, "a: b"},
	}
}

// textOf is what a message ends with, if that is a text of any length.
func textOf(m message) (text string, ok bool) {
	switch m := m.(type) {
	case strayMessage:
		return m.name, true
	case flawMessage:
		return m.why, true
	case endedMessage:
		return m.want, true
	}
	return "", false
}

func TestDecode_ReadsWhatWasWritten(t *testing.T) {
	for _, m := range samples() {
		packet := m.append(nil)
		got, err := decode(packet)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decode(%+v as a packet) = %+v, %v", m, got, err)
		}
		for _, cut := range []int{0, 1, len(packet) - 1} {
			if text, ok := textOf(m); ok && cut > 0 && cut >= len(packet)-len(text) {
				continue // a shorter text is a text
			}
			if _, ok := m.(moveMessage); ok && cut == 1 {
				continue // no moves are moves
			}
			if got, err := decode(packet[:cut]); !errors.Is(err, errMalformed) {
				t.Errorf("decode(the first %d bytes of %T) = %+v, %v, want errMalformed", cut, m, got, err)
			}
		}
		if _, ok := textOf(m); !ok {
			if got, err := decode(append(packet, 0)); !errors.Is(err, errMalformed) {
				t.Errorf("decode(%T and a byte) = %+v, %v, want errMalformed", m, got, err)
			}
		}
	}
}

func TestDecode_RefusesWhatCannotBe(t *testing.T) {
	badFlag := startMessage{run: 1, files: standardFiles + 1}.append(nil)
	for name, packet := range map[string][]byte{
		"no kind":                   {0},
		"a kind above the last":     {byte(kindPong) + 1, 0, 0, 0, 0},
		"a flag of 2":               badFlag,
		"a program above the bound": startMessage{run: 1, specLen: maxSpec + 1}.append(nil),
		"a program of other length": startMessage{run: 1, specLen: 3, spec: []byte("ab")}.append(nil),
		"an unknown failure":        failedMessage{1, failedBehind + 1, 0}.append(nil),
		"an unknown end":            endedMessage{by: byDeadline + 1}.append(nil),
		"an unknown flaw":           flawMessage{what: flawLeft + 1}.append(nil),
		"a run beyond 32 bits":      append([]byte{byte(kindMove)}, bytes.Repeat([]byte{0xff}, moveLen)...),
	} {
		if got, err := decode(packet); !errors.Is(err, errMalformed) {
			t.Errorf("decode(%s) = %+v, %v, want errMalformed", name, got, err)
		}
	}
}

func TestDecodeSpec_ReadsWhatWasWritten(t *testing.T) {
	for _, want := range []spec{
		{run: "r", path: "p", dir: "d", args: []string{"a"}, env: []string{"E=1"}},
		{args: []string{}, env: []string{}, as: &identity{uid: 34, gid: 35}, umask: new(0)},
		{args: []string{}, env: []string{}, as: &identity{0, 1<<32 - 2, []uint32{1, 2}}, nice: new(-20)},
		{args: []string{"a"}, env: []string{}, umask: new(0o777), nice: new(19)},
	} {
		body := want.encode()
		if got, err := decodeSpec(body); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("decodeSpec of %+v = %+v, %v", want, got, err)
		}
	}
}

func TestDecodeSpec_RefusesWhatCannotBe(t *testing.T) {
	good := (&spec{run: "r", path: "p", dir: "d", args: []string{"a"}}).encode()
	as := (&spec{as: &identity{1, 2, []uint32{3}}}).encode()
	const head = 1 + 4 // the bits of the slate, the count of the arguments
	if got, err := decodeSpec(good); err != nil || got.path != "p" || len(got.args) != 1 || len(got.env) != 0 {
		t.Fatalf("decodeSpec(a good one) = %+v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"nothing":                      {},
		"the bits alone":               good[:1],
		"a count alone":                good[:head],
		"two strings":                  good[:head+5+5],
		"a string that ends too early": good[:len(good)-1],
		"more arguments than strings":  append([]byte{0, 2, 0, 0, 0}, good[head:]...),
		"a count beyond all bounds":    append([]byte{0, 0xff, 0xff, 0xff, 0xff}, good[head:]...),
		"a bit that means nothing":     append([]byte{1 << slateBits}, good[1:]...),
		"a mask beyond all bounds":     append([]byte{hasUmask, 0, 2, 0, 0}, good[1:]...),
		"more groups than there are":   slices.Concat(as[:9], []byte{0xff, 0xff, 0xff, 0xff}, as[13:]),
	} {
		if got, err := decodeSpec(b); !errors.Is(err, errMalformed) {
			t.Errorf("decodeSpec(%s) = %+v, %v, want errMalformed", name, got, err)
		}
	}
}

// Whatever comes, decode answers; and what it takes for a message is written the same way again.
func FuzzDecode(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := decode(packet)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Errorf("decode = %v, want errMalformed", err)
			}
			return
		}
		if again := m.append(nil); !bytes.Equal(again, packet) {
			t.Errorf("%+v was read from %x and is written as %x", m, packet, again)
		}
		if s, ok := m.(startMessage); ok {
			if sp, err := decodeSpec(s.spec); err == nil && !bytes.Equal(sp.encode(), s.spec) {
				t.Errorf("%+v was read from %x and is written as %x", sp, s.spec, sp.encode())
			}
		}
	})
}

func TestPackets_CarryDescriptors(t *testing.T) {
	ours, theirs := pair(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	big := strings.Repeat("x", maxPacket)
	mem, err := inMemory([]byte(big))
	if err != nil {
		t.Fatal(err)
	}
	if err := send(ours, []byte(big), int(write.Fd()), int(mem.Fd())); err != nil {
		t.Fatalf("send of the longest packet: %v", err)
	}
	write.Close()
	mem.Close()
	packet, fds, err := receive(theirs, make([]byte, maxPacket))
	if err != nil || string(packet) != big || len(fds) != 2 {
		t.Fatalf("receive = %d bytes, descriptors %v, %v; want %d, two, nil", len(packet), fds, err, maxPacket)
	}
	if got, err := readMemory(fds[1], len(big)); err != nil || string(got) != big {
		t.Errorf("readMemory = %d bytes, %v, want %d", len(got), err, len(big))
	}
	if _, err := readMemory(fds[1], len(big)+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("readMemory of a byte too many = %v, want unexpected EOF", err)
	}
	for _, fd := range fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %d, %v, want close-on-exec", fd, flags, err)
		}
	}
	if _, err := unix.Write(fds[0], []byte("hello")); err != nil {
		t.Fatal(err)
	}
	closeAll(fds)
	if got, err := io.ReadAll(read); string(got) != "hello" || err != nil {
		t.Errorf("the pipe brought %q, %v, want hello and its end", got, err)
	}
}

func TestPackets_Ends(t *testing.T) {
	ours, theirs := pair(t)
	buf := make([]byte, maxPacket)
	if _, _, err := receive(theirs, buf); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("receive with nothing there = %v, want EAGAIN", err)
	}
	sent := 0
	for ; send(ours, make([]byte, 1000)) == nil; sent++ {
		if sent > 1e6 {
			t.Fatal("a socket that nobody reads takes a million packets")
		}
	}
	if err := send(ours, make([]byte, 1000)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("send without room = %v, want EAGAIN", err)
	}
	unix.Close(ours)
	for range sent {
		if _, _, err := receive(theirs, buf); err != nil {
			t.Fatalf("what was sent before the end: %v", err)
		}
	}
	if _, _, err := receive(theirs, buf); !errors.Is(err, io.EOF) {
		t.Errorf("receive after the end = %v, want EOF", err)
	}
	if err := send(theirs, []byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("send after the end = %v, want EPIPE", err)
	}
	t.Run("with packets unread", func(t *testing.T) {
		ours, theirs := pair(t)
		if err := send(theirs, []byte("x")); err != nil {
			t.Fatal(err)
		}
		unix.Close(ours)
		if _, _, err := receive(theirs, buf); !errors.Is(err, io.EOF) {
			t.Errorf("receive = %v, want EOF", err)
		}
	})
	t.Run("longer than the buffer", func(t *testing.T) {
		ours, theirs := pair(t)
		if err := send(ours, []byte("123456")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := receive(theirs, make([]byte, 5)); !errors.Is(err, errMalformed) {
			t.Errorf("receive = %v, want errMalformed", err)
		}
	})
}

// pair returns the descriptors of a connection, which are closed with the test.
func pair(t *testing.T) (ours, theirs int) {
	t.Helper()
	a, b, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	dup := func(f *os.File) int {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	return dup(a), dup(b)
}

func TestSpec_Strings(t *testing.T) {
	s := &spec{run: "r", path: "p", dir: "d", args: []string{"a", "b"}, env: []string{"E=1"}}
	if got, want := s.strings(), []string{"r", "p", "d", "a", "b", "E=1"}; !slices.Equal(got, want) {
		t.Errorf("strings() = %q, want %q", got, want)
	}
}
