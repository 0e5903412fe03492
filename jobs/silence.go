//go:build linux

package jobs

import "time"

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
