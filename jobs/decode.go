//go:build linux

package jobs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// errMalformed is a packet that is none of wire.go's. What it holds stays out of the message: it may
// be a job's secret.
var errMalformed = errors.New("malformed message")

// decodeSpec reads what encode wrote. The strings share no memory with b.
func decodeSpec(b []byte) (*spec, error) {
	r := reader{b}
	s := r.slate()
	args := int(r.uint32())
	var all []string
	for len(r.rest) > 0 {
		all = append(all, string(r.bytes(int(r.uint32()))))
	}
	if r.rest == nil || len(all) < 3 || args < 0 || args > len(all)-3 {
		return nil, fmt.Errorf("%w: a program", errMalformed)
	}
	s.run, s.path, s.dir, s.args, s.env = all[0], all[1], all[2], all[3:3+args], all[3+args:]
	return &s, nil
}

// slate reads what of a spec is not a string.
func (r *reader) slate() (s spec) {
	has := r.byte(1<<slateBits - 1)
	if has&hasIdentity != 0 {
		s.as = &identity{uid: r.uint32(), gid: r.uint32()}
		for range r.uint32() {
			if r.rest == nil {
				break // the count was wrong
			}
			s.as.groups = append(s.as.groups, r.uint32())
		}
	}
	if has&hasUmask != 0 {
		if s.umask = new(int(r.uint32())); *s.umask > 0o777 {
			r.rest = nil
		}
	}
	if has&hasNice != 0 {
		s.nice = new(int(int32(r.uint32())))
	}
	return s
}

// decode reads one packet. What it returns shares memory with b.
func decode(b []byte) (message, error) {
	if len(b) == 0 {
		return nil, errMalformed
	}
	r := reader{b[1:]}
	var m message
	switch kind(b[0]) {
	case kindStart:
		s := startMessage{
			run: r.run(), lease: r.lease(), startBy: r.duration(), grace: r.duration(), files: r.byte(standardFiles),
			specLen: r.uint32(), limits: r.limits(),
		}
		s.spec = r.all()
		m = s
		if s.specLen > maxSpec || len(s.spec) > 0 && len(s.spec) != int(s.specLen) {
			r.rest = nil
		}
	case kindMove:
		moves := make(moveMessage, 0, len(r.rest)/moveLen)
		for len(r.rest) > 0 {
			run := r.uint64()
			if run > math.MaxUint32 {
				r.rest = nil
				break
			}
			moves = append(moves, move{runID(run), r.lease()})
		}
		m = moves
	case kindEnd:
		m = endMessage{r.run(), r.duration()}
	case kindSignal:
		m = signalMessage{r.run(), r.uint32()}
	case kindPing:
		m = pingMessage{r.uint32()}
	case kindPong:
		m = pongMessage{r.uint32()}
	case kindReady:
		m = readyMessage{r.uint64()}
	case kindStarted:
		m = startedMessage{r.run(), int32(r.uint32()), r.duration()}
	case kindFailed:
		m = failedMessage{r.run(), failure(r.byte(uint8(failedBehind))), r.uint32()}
	case kindEnded:
		m = endedMessage{
			r.run(), r.uint32(), r.duration(), endedBy(r.byte(uint8(byDeadline))), r.flag(),
			usage{r.duration(), int64(r.uint64())},
			string(r.all()),
		}
	case kindHangs:
		m = hangsMessage{r.run()}
	case kindStray:
		m = strayMessage{int32(r.uint32()), strayReason(r.byte(uint8(strayLate))), string(r.all())}
	case kindFlaw:
		m = flawMessage{r.run(), flaw(r.byte(uint8(flawLeft))), string(r.all())}
	}
	if m == nil || r.rest == nil || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w of kind %d, %d bytes", errMalformed, b[0], len(b))
	}
	return m, nil
}

// A reader takes a packet apart. Its rest is nil once something was missing or not as it must be,
// and stays nil.
type reader struct{ rest []byte }

func (r *reader) bytes(n int) []byte {
	if n < 0 || r.rest == nil || n > len(r.rest) {
		r.rest = nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) all() []byte { return r.bytes(len(r.rest)) }

func (r *reader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// byte reads one that is at most limit.
func (r *reader) byte(limit uint8) uint8 {
	b := r.bytes(1)
	if b == nil || b[0] > limit {
		r.rest = nil
		return 0
	}
	return b[0]
}

func (r *reader) run() runID              { return runID(r.uint32()) }
func (r *reader) duration() time.Duration { return time.Duration(r.uint64()) }
func (r *reader) flag() bool              { return r.byte(1) == 1 }
func (r *reader) lease() leaseTimes       { return leaseTimes{r.duration(), r.duration()} }
func (r *reader) limits() Limits          { return Limits{int(r.uint64()), int(r.uint64()), int(r.uint64())} }
