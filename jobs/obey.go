//go:build linux

package jobs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// read takes in what the daemon has sent.
func (s *server) read() {
	for range packetsAtOnce {
		if s.closing {
			return
		}
		packet, fds, err := receive(s.conn, s.packet)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err == nil {
			err = s.obey(packet, fds)
		} else {
			closeAll(fds)
		}
		if err != nil {
			// io.EOF, or what cannot be: nobody vouches for the runs any more.
			s.close()
		}
	}
}

// obey does what one packet says. It owns the descriptors.
func (s *server) obey(packet []byte, fds []int) error {
	m, err := decode(packet)
	if start, ok := m.(startMessage); ok && err == nil {
		return s.accept(start, fds)
	}
	closeAll(fds)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case moveMessage:
		for _, mv := range m {
			if r := s.runs[mv.run]; r != nil {
				r.life.move(mv.lease.term, mv.lease.kill)
				r.job.kill.Store(int64(r.life.kill))
			}
		}
	case endMessage:
		if r := s.runs[m.run]; r != nil {
			r.life.ask(boottime(), m.grace)
		}
	case signalMessage:
		// The main process is not reaped while the run is known, so its group is no stranger's.
		if r := s.runs[m.run]; r != nil && r.pid != 0 {
			signalGroup(r.pid, []unix.Signal{unix.Signal(m.signal)})
		}
	case pingMessage:
		s.post(pongMessage(m))
	default:
		return errMalformed // the warden's own words
	}
	return nil
}

// accept takes a run in.
func (s *server) accept(m startMessage, fds []int) error {
	body := m.spec
	files := fds[:min(int(m.files), len(fds))]
	fds = fds[len(files):]
	r := &served{id: m.run, startBy: m.startBy, asked: boottime(), life: life{grace: m.grace, term: m.lease.term, kill: m.lease.kill}}
	r.job = &job{run: r, files: files, limits: m.limits}
	r.job.kill.Store(int64(m.lease.kill))
	fail := func(errno unix.Errno) error {
		r.job.discard()
		closeAll(fds)
		s.post(failedMessage{run: m.run, why: failedExec, errno: uint32(errno)})
		return nil
	}
	if s.runs[m.run] != nil {
		r.job.discard()
		closeAll(fds)
		return errMalformed
	}
	if len(files) < int(m.files) || len(body) == 0 && len(fds) == 0 {
		return fail(unix.EMFILE) // dropped on the way, see receive
	}
	if len(body) == 0 {
		var err error
		if body, err = readMemory(fds[0], int(m.specLen)); err != nil {
			return fail(unix.EIO)
		}
	}
	closeAll(fds)
	var err error
	if r.job.spec, err = decodeSpec(body); err != nil {
		r.job.discard()
		return err
	}
	r.run = r.job.spec.run
	s.runs[r.id] = r
	s.queue = append(s.queue, r)
	return nil
}
