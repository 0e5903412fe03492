//go:build linux

package jobs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// read is the reader.
func (l *link) read() {
	buf := make([]byte, maxPacket)
	for {
		m, err := l.next(buf)
		if err == nil {
			err = l.hear(m)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

// next waits for a message.
func (l *link) next(buf []byte) (m message, err error) {
	var packet []byte
	readErr := l.raw.Read(func(fd uintptr) bool {
		var fds []int
		packet, fds, err = receive(int(fd), buf)
		closeAll(fds) // the warden has none to give
		return !errors.Is(err, unix.EAGAIN)
	})
	if readErr != nil {
		return nil, readErr
	}
	if err != nil {
		return nil, err
	}
	return decode(packet)
}

// hear takes in what the warden says.
func (l *link) hear(m message) error {
	switch m := m.(type) {
	case pongMessage:
		l.ponged.Store(m.seq)
	case startedMessage:
		if wd := l.find(m.run, false); wd != nil {
			l.mu.Lock()
			wd.main = int(m.pid)
			l.mu.Unlock()
			wd.started = onTheWall(m.at)
			wd.begin()
		}
	case failedMessage:
		if wd := l.find(m.run, true); wd != nil {
			wd.failed = &m
			wd.finish()
		}
	case endedMessage:
		if wd := l.find(m.run, true); wd != nil {
			wd.ended, wd.at = &m, onTheWall(m.at)
			wd.finish()
		}
	case strayMessage:
		if m.late {
			l.log.Error("process outlived its run", "pid", m.pid, "name", m.name, "effect", "it was killed")
			break
		}
		l.log.Warn("process escaped its run", "pid", m.pid, "name", m.name,
			"reason", "it shows no sign of the run that it came from", "effect", "it lives on until the daemon stops")
	case flawMessage:
		if wd := l.find(m.run, false); wd != nil {
			l.tellFlaw(wd, m)
		}
	default:
		return errMalformed
	}
	return nil
}

// tellFlaw logs what was the matter with a run's cgroup.
func (l *link) tellFlaw(wd *ward, m flawMessage) {
	switch m.what {
	case flawNone:
		l.log.Warn("run has no cgroup", "run", wd.run, "err", m.why,
			"effect", "its processes are found by their group, their parents and ROTA_RUN; it runs without limits")
	case flawUnset:
		l.log.Warn("limits not set", "run", wd.run, "err", m.why, "effect", "it runs without them")
	case flawLeft:
		l.log.Warn("cgroup of a run was left", "run", wd.run, "err", m.why, "effect", "the next daemon removes it")
	}
}

// find returns a ward, and forgets it if it is over.
func (l *link) find(id runID, over bool) *ward {
	l.mu.Lock()
	defer l.mu.Unlock()
	wd := l.wards[id]
	if over {
		delete(l.wards, id)
		delete(l.moves, id)
	}
	return wd
}
