package scheduler

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"rota/locking"
)

// presence remembers whether Redis answers, so that its absence costs a line when it begins
// and a line when it ends, and not one a retry.
type presence struct {
	mu    sync.Mutex
	away  time.Time // since when; zero: it is there
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
	switch {
	case err != nil && p.away.IsZero():
		p.away, p.fails = time.Now(), 1
		log.Warn("redis went away", "err", err)
	case err != nil:
		p.fails++
	case !p.away.IsZero():
		log.Info("redis came back", "after", time.Since(p.away).Round(time.Millisecond), "failures", p.fails)
		p.away, p.fails = time.Time{}, 0
	}
}
