//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A silence counts how long the warden has owed an answer. Time counts only as far as the daemon was
// awake to hear one: a daemon that was stopped for a minute, or a machine that slept, has waited for
// nobody. So between two looks, which are pingEvery apart, at most twice that is counted.
type silence struct {
	asked  bool
	seq    uint32 // of the last ping
	waited time.Duration
	looked time.Time
	pinged time.Time
}

// look takes in the time and the last pong. ping tells to send one with s.seq now; broken, that the
// warden has been silent for too long.
func (s *silence) look(now time.Time, pong uint32, running bool) (ping, broken bool) {
	passed := min(now.Sub(s.looked), 2*pingEvery)
	s.looked = now
	if s.asked && pong == s.seq {
		s.asked = false
	}
	if s.asked {
		s.waited += passed
		return false, s.waited >= answerPatience
	}
	if every := s.every(running); now.Sub(s.pinged) >= every {
		s.asked, s.waited, s.pinged = true, 0, now
		s.seq++
		return true, false
	}
	return false, false
}

// every is the distance of looks.
func (s *silence) every(running bool) time.Duration {
	if running || s.asked {
		return pingEvery
	}
	return pingIdle
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
			if err := l.sendWithin(p); err != nil {
				l.fail(err)
				return
			}
		}
	}
}

// pending returns the next parcel to be sent: first those that waited, then the moves, as many as fit.
func (l *link) pending() (p parcel, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.out) > 0 {
		p = l.out[0]
		l.out = l.out[1:]
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
			return fmt.Errorf("it has made no room for %v", answerPatience)
		}
	} else if waitErr != nil {
		err = waitErr
	}
	return err
}
