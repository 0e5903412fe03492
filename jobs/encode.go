//go:build linux

package jobs

import (
	"encoding/binary"
	"time"
)

func (m startMessage) append(to []byte) []byte {
	to = appendRun(to, kindStart, m.run)
	to = appendInstants(to, m.lease.term, m.lease.kill, m.startBy, m.grace)
	to = append(to, m.files)
	to = binary.LittleEndian.AppendUint32(to, m.specLen)
	for _, n := range []int{m.limits.MemoryBytes, m.limits.CPUPercent, m.limits.Tasks} {
		to = binary.LittleEndian.AppendUint64(to, uint64(n))
	}
	return append(to, m.spec...)
}

func (m moveMessage) append(to []byte) []byte {
	to = append(to, byte(kindMove))
	for _, mv := range m {
		to = binary.LittleEndian.AppendUint64(to, uint64(mv.run))
		to = appendInstants(to, mv.lease.term, mv.lease.kill)
	}
	return to
}

func (m endMessage) append(to []byte) []byte {
	return appendInstants(appendRun(to, kindEnd, m.run), m.grace)
}

func (m signalMessage) append(to []byte) []byte {
	return binary.LittleEndian.AppendUint32(appendRun(to, kindSignal, m.run), m.signal)
}

func (m pingMessage) append(to []byte) []byte { return appendRun(to, kindPing, runID(m.seq)) }
func (m pongMessage) append(to []byte) []byte { return appendRun(to, kindPong, runID(m.seq)) }

func (m hangsMessage) append(to []byte) []byte { return appendRun(to, kindHangs, m.run) }

func (m readyMessage) append(to []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(to, byte(kindReady)), m.marks)
}

func (m startedMessage) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(appendRun(to, kindStarted, m.run), uint32(m.pid))
	return appendInstants(to, m.at)
}

func (m failedMessage) append(to []byte) []byte {
	to = append(appendRun(to, kindFailed, m.run), byte(m.why))
	return binary.LittleEndian.AppendUint32(to, m.errno)
}

func (m endedMessage) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(appendRun(to, kindEnded, m.run), m.status)
	to = append(appendInstants(to, m.at), byte(m.by), flag(m.killed))
	to = binary.LittleEndian.AppendUint64(appendInstants(to, m.usage.cpu), uint64(m.usage.peakBytes))
	return append(to, m.want...)
}

func (m strayMessage) append(to []byte) []byte {
	to = binary.LittleEndian.AppendUint32(append(to, byte(kindStray)), uint32(m.pid))
	return append(append(to, byte(m.why)), m.name...)
}

func (m flawMessage) append(to []byte) []byte {
	return append(append(appendRun(to, kindFlaw, m.run), byte(m.what)), m.why...)
}

func appendRun(to []byte, k kind, run runID) []byte {
	return binary.LittleEndian.AppendUint32(append(to, byte(k)), uint32(run))
}

func appendInstants(to []byte, instants ...time.Duration) []byte {
	for _, i := range instants {
		to = binary.LittleEndian.AppendUint64(to, uint64(i))
	}
	return to
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// encode returns the spec as it goes over the wire.
func (s *spec) encode() []byte {
	size := 0
	for _, str := range s.strings() {
		size += 4 + len(str)
	}
	b := make([]byte, 0, size+64)
	b = s.appendSlate(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.args)))
	for _, str := range s.strings() {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(str)))
		b = append(b, str...)
	}
	return b
}

// What of a slate is there.
const (
	hasIdentity = 1 << iota
	hasUmask
	hasNice
	slateBits = iota
)

// appendSlate adds what is not a string.
func (s *spec) appendSlate(to []byte) []byte {
	at := len(to)
	to = append(to, 0)
	if id := s.as; id != nil {
		to[at] |= hasIdentity
		to = binary.LittleEndian.AppendUint32(to, id.uid)
		to = binary.LittleEndian.AppendUint32(to, id.gid)
		to = binary.LittleEndian.AppendUint32(to, uint32(len(id.groups)))
		for _, g := range id.groups {
			to = binary.LittleEndian.AppendUint32(to, g)
		}
	}
	if s.umask != nil {
		to[at] |= hasUmask
		to = binary.LittleEndian.AppendUint32(to, uint32(*s.umask))
	}
	if s.nice != nil {
		to[at] |= hasNice
		to = binary.LittleEndian.AppendUint32(to, uint32(*s.nice))
	}
	return to
}

// strings are all strings of the spec, in the order of the wire.
func (s *spec) strings() []string {
	all := make([]string, 0, 3+len(s.args)+len(s.env))
	all = append(all, s.run, s.path, s.dir)
	return append(append(all, s.args...), s.env...)
}
