package scheduler

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"rota/locking"
)

// awayAfter is how long Redis must have failed to answer to be away. A single lost reply, or an
// error that the client remembered from a moment ago, is no absence.
const awayAfter = 300 * time.Millisecond

// awayAgainAfter is the same right after an absence: each pool of the client goes on to answer with the
// error that it remembered, until it has dialled once more, up to a second later.
const (
	awayAgainAfter = 2 * time.Second
	rightAfter     = 2 * time.Second
)

// remind is how often a fault that lasts is said again.
const remind = 5 * time.Minute

// presence remembers whether Redis answers, so that its absence costs a line when it begins,
// one every five minutes and one when it ends, and not one a retry.
type presence struct {
	mu    sync.Mutex
	since time.Time // of the first failure since the last answer; zero: there was none
	told  time.Time // when the log said last that it is away; zero: it did not
	last  time.Time // when it was seen away last, over all absences
	fails int       // since the last answer
}

// heard takes in one answer or failure. An error that is an answer of Redis, such as a refused
// permission, shows that it is there. It tells whether Redis is back from an absence.
func (p *presence) heard(log *slog.Logger, err error) (back bool) {
	if err != nil && !errors.Is(err, locking.ErrUnavailable) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		back = !p.told.IsZero()
		if back {
			p.last = time.Now()
			log.Info("redis came back", "after", time.Since(p.since).Round(time.Millisecond), "failures", p.fails)
		}
		p.since, p.told, p.fails = time.Time{}, time.Time{}, 0
		return back
	}
	if p.fails++; p.since.IsZero() {
		p.since = time.Now()
	}
	after := awayAfter
	if !p.last.IsZero() && p.since.Sub(p.last) < rightAfter {
		after = awayAgainAfter
	}
	switch {
	case p.told.IsZero() && time.Since(p.since) >= after:
		p.told = time.Now()
		log.Warn("redis went away", "err", err, "effect", "nothing is claimed until it is back")
	case !p.told.IsZero() && time.Since(p.told) >= remind:
		p.told = time.Now()
		log.Warn("redis is still away", "since", p.since, "err", err)
	}
	return false
}

// awayWithin tells whether Redis was away at any moment of the last d.
func (p *presence) awayWithin(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.told.IsZero() || !p.last.IsZero() && time.Since(p.last) < d
}
