//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errNoRoom: a warden that reads nothing is none.
var errNoRoom = fmt.Errorf("it has made no room for %v", answerPatience)

// post sends a packet at once if there is room, else the writer does. Called with l.mu held.
func (l *link) post(p parcel) error {
	if l.isBroken() {
		return errBroken
	}
	l.poke() // for the writer, to begin with the pings or to send
	if len(l.out) == 0 {
		if err := l.sendNow(p); !errors.Is(err, unix.EAGAIN) {
			return err
		}
	}
	l.out = append(l.out, p)
	return nil
}

// sendNow sends without waiting. Any error but EAGAIN says that it was not sent and will not be.
func (l *link) sendNow(p parcel) (err error) {
	fds := make([]int, len(p.files))
	for i, f := range p.files {
		fds[i] = int(f.Fd()) // also has it block, as a program expects of its output
	}
	if controlErr := l.raw.Control(func(fd uintptr) { err = send(int(fd), p.packet, fds...) }); controlErr != nil {
		err = controlErr
	}
	if p.ward != nil && !errors.Is(err, unix.EAGAIN) {
		_ = closeFile(p.ward.memory)
		p.ward.memory = nil
	}
	return err
}

func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write is the writer: it sends what found no room, and the moves, and listens for the silence.
func (l *link) write() {
	s := silence{looked: time.Now(), pinged: time.Now()}
	timer := time.NewTimer(pingIdle)
	defer timer.Stop()
	var due time.Time
	for {
		running := l.running() > 0
		if next := time.Now().Add(s.every(running)); due.IsZero() || next.Before(due) {
			due = next
			timer.Reset(time.Until(due))
		}
		select {
		case <-l.broken:
			return
		case <-l.wake:
		case <-timer.C:
			due = time.Time{}
			ping, silent := s.look(time.Now(), l.ponged.Load(), running)
			if silent {
				l.fail(fmt.Errorf("it has not answered for %v", answerPatience))
				return
			}
			if ping {
				l.mu.Lock()
				err := l.post(parcel{packet: pingMessage{s.seq}.append(nil)})
				l.mu.Unlock()
				if err != nil {
					l.fail(err)
					return
				}
			}
		}
		for p, ok := l.pending(); ok; p, ok = l.pending() {
			err := l.sendWithin(p)
			if err != nil && (p.ward == nil || hungUp(err) || errors.Is(err, errNoRoom)) {
				l.fail(err)
				return
			}
			if l.sent(p); err != nil {
				l.refuse(p.ward, err) // the kernel would not take it, and this one alone
			}
		}
	}
}

// pending returns the next parcel to be sent: first those that waited, then the moves, as many as fit.
// One that waited stays where it is until it is sent, so that nothing overtakes it: the end of a run that
// came before its start would be lost.
func (l *link) pending() (p parcel, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.out) > 0 {
		p = l.out[0]
		p.waited = true
		return p, true
	}
	var moves moveMessage
	for id, lease := range l.moves {
		delete(l.moves, id)
		if moves = append(moves, move{id, lease}); len(moves) == movesAtOnce {
			break
		}
	}
	return parcel{packet: moves.append(nil)}, len(moves) > 0
}

// refuse ends a ward that cannot be handed to the warden.
func (l *link) refuse(wd *ward, why error) {
	if l.find(wd.id, true) != nil {
		wd.refused = handOverError(why)
		wd.finish()
	}
}

// sent takes a parcel out that had to wait.
func (l *link) sent(p parcel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.waited {
		l.out = l.out[1:]
	}
}

// sendWithin sends a parcel, and waits for room no longer than answerPatience.
func (l *link) sendWithin(p parcel) error {
	_ = l.conn.SetWriteDeadline(time.Now().Add(answerPatience))
	var err error
	waitErr := l.raw.Write(func(uintptr) bool {
		err = l.sendNow(p)
		return !errors.Is(err, unix.EAGAIN)
	})
	if errors.Is(waitErr, os.ErrDeadlineExceeded) {
		// Once more: the time may have passed while this process was stopped.
		if err = l.sendNow(p); errors.Is(err, unix.EAGAIN) {
			return errNoRoom
		}
	} else if waitErr != nil {
		err = waitErr
	}
	return err
}
