package scheduler

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rota/scheduler/ledger"
)

// Each tick is won in the sight of one host, and the others come a turn later, whether they look or
// claim; nobody is ahead of Redis' clock.
func TestScheduler_ObserveSeesWhoComesSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "beat", "*/5 * * * * *", f.handler(time.Millisecond))
		var mu sync.Mutex
		seen := map[time.Time][]Sight{}
		for _, name := range names(3) {
			f.start(name, func(o *Options) {
				o.Observe = func(s Sight) {
					mu.Lock()
					defer mu.Unlock()
					seen[s.Tick] = append(seen[s.Tick], s)
				}
			}, j)
		}
		time.Sleep(6 * time.Second)
		from := time.Now()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		ticks := 0
		for tick, sights := range seen {
			if tick.Before(from) || time.Since(tick) < time.Second {
				continue
			}
			ticks++
			var won time.Time
			for _, s := range sights {
				if !s.Left && s.Decision.Answer == ledger.Won {
					if !won.IsZero() {
						t.Errorf("tick %s: two saw themselves win", tick)
					}
					won = s.At
				}
			}
			if won.IsZero() || len(sights) != 3 {
				t.Fatalf("tick %s: %d sights of which a win at %s, want 3 and one", tick, len(sights), won)
			}
			for _, s := range sights {
				if s.Job != "beat" || s.Lock != "beat" || s.Kind != ledger.Scheduled {
					t.Errorf("tick %s: sight of %q under %q, %s; want beat, beat, scheduled", tick, s.Job, s.Lock, s.Kind)
				}
				if !s.Left {
					continue
				}
				if late := s.At.Sub(won); late < stepBase-2*time.Millisecond || late > 3*stepBase {
					t.Errorf("tick %s: the next host came %s after the win, want a turn or two", tick, late)
				}
				if s.Trip != 0 || s.Decision.Answer != "" {
					t.Errorf("tick %s: a sight of a tick that was left has a decision: %+v", tick, s)
				}
			}
		}
		if ticks < 10 {
			t.Errorf("%d ticks were seen, want 10 or more", ticks)
		}
	})
}
