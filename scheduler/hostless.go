package scheduler

import (
	"strings"
	"time"

	"rota/scheduler/ledger"
)

// hostless is a job for which no host is there.
type hostless struct {
	since time.Time
	told  bool
}

// findHosts reports jobs whose `hosts` name nobody who is there and claims, and when somebody is again.
// Hosts come and go in a restart, so it waits for as long as a host may be silent. The heart alone
// calls it.
func (s *Scheduler) findHosts(tab *table, now time.Time) {
	hosted := map[string]bool{} // by the hosts named: many jobs name the same
	seen := map[string]bool{}
	for i := range tab.jobs {
		j := &tab.jobs[i]
		if len(j.Hosts) == 0 || j.Disabled || j.Schedule == nil {
			continue
		}
		seen[j.Name] = true
		names := strings.Join(j.Hosts, " ")
		ok, known := hosted[names]
		if !known {
			ok = s.anyOf(j.Hosts)
			hosted[names] = ok
		}
		h := s.hostless[j.Name]
		switch {
		case ok && h == nil:
		case ok:
			delete(s.hostless, j.Name)
			if h.told {
				s.log.Info("job has a host again", "job", j.Name)
			}
		case h == nil:
			s.hostless[j.Name] = &hostless{since: now}
		case !h.told && now.Sub(h.since) >= ledger.HostGone:
			h.told = true
			s.log.Warn("job has no host", "job", j.Name, "hosts", names,
				"effect", "its ticks are missed until one of these is there and not drained")
		}
	}
	for name := range s.hostless {
		if !seen[name] {
			delete(s.hostless, name) // it is in the table no more, or may run anywhere
		}
	}
}

// anyOf tells whether a host that claims is among those named.
func (s *Scheduler) anyOf(hosts []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.fleet {
		if MayRun(hosts, h, s.labels[h]) {
			return true
		}
	}
	return false
}
