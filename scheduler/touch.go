package scheduler

import (
	"context"
	"time"

	"rota/scheduler/ledger"
)

// touch keeps the records of the whole table from expiring, once a day: a job that is due
// once a year is not forgotten while it stands in some host's table. What is older than the
// history goes back goes then.
func (s *Scheduler) touch(ctx context.Context) {
	select {
	case <-s.contact:
	case <-ctx.Done():
		return
	}
	wait := time.Duration(0)
	for sleep(ctx, wait) {
		tab := s.current()
		names := make([]string, 0, len(tab.jobs))
		expire := map[string]time.Duration{}
		for i := range tab.jobs {
			j := &tab.jobs[i]
			lasts := Expiry(j.Schedule, s.opt.MaxAge, s.clock.Now())
			for _, name := range []string{j.Name, ledger.EveryHostOf(j.Name)} { // its pause on every host is none of a host's own
				if name != "" {
					names = append(names, name)
					expire[name] = lasts
				}
			}
		}
		call, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
		err := s.opt.Ledger.Touch(call, names, s.opt.MaxAge, func(job string) time.Duration { return expire[job] })
		cancel()
		if wait = 24 * time.Hour; err != nil {
			wait = time.Minute
		}
	}
}
