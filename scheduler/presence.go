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

// presence remembers whether Redis answers, so that its absence costs a line when it begins
// and a line when it ends, and not one a retry.
type presence struct {
	mu    sync.Mutex
	since time.Time // of the first failure since the last answer; zero: there was none
	told  bool      // the log says that it is away
	fails int       // since the last answer
}

// heard takes in one answer or failure. An error that is an answer of Redis, such as a refused
// permission, shows that it is there.
func (p *presence) heard(log *slog.Logger, err error) {
	if err != nil && !errors.Is(err, locking.ErrUnavailable) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.told {
			log.Info("redis came back", "after", time.Since(p.since).Round(time.Millisecond), "failures", p.fails)
		}
		p.since, p.told, p.fails = time.Time{}, false, 0
		return
	}
	if p.fails++; p.since.IsZero() {
		p.since = time.Now()
	}
	if !p.told && time.Since(p.since) >= awayAfter {
		p.told = true
		log.Warn("redis went away", "err", err)
	}
}
