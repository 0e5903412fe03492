package shadow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

// stats are what the report is made of. They do not grow with the number of ticks.
type stats struct {
	namespace, table string
	config           *config.Config
	past             *past
	jobs             map[string]*jobStats  // by the job's name in the ledger
	hosts            map[string]*hostStats // by name
	claims           spread
	seconds          map[int64]int // commands sent, of the newest seconds
	peak             int
	peakAt           int64
	total            int
	from, until      int64 // the seconds in which they were counted
}

type jobStats struct {
	Lock                            string
	Ticks, Won, Held, Skipped, Miss int
	Ended                           map[string]int // by outcome, of leases that did not last as long as they should
	Holders                         map[holder]int
	Margin                          spread
	Holds                           time.Duration
}

type holder struct{ job, host string }

type hostStats struct {
	wins   int
	claims spread
	offset time.Duration
	known  bool // the offset is
	here   bool
}

func newStats(c *config.Config, p *past, names []string) *stats {
	s := &stats{
		namespace: c.Namespace, table: c.TableHash(), config: c, past: p,
		jobs: map[string]*jobStats{}, hosts: map[string]*hostStats{}, seconds: map[int64]int{},
	}
	for _, name := range names {
		s.of(name).here = true
	}
	return s
}

func (s *stats) of(host string) *hostStats {
	h := s.hosts[host]
	if h == nil {
		h = &hostStats{}
		s.hosts[host] = h
	}
	return h
}

func (s *stats) job(name, lock string) *jobStats {
	j := s.jobs[name]
	if j == nil {
		j = &jobStats{Ended: map[string]int{}, Holders: map[holder]int{}}
		s.jobs[name] = j
	}
	j.Lock = cmp.Or(lock, j.Lock)
	return j
}

// host takes in what a host says of itself.
func (s *stats) host(h *ledger.Host) {
	of := s.of(h.Name)
	of.offset, of.known = h.ClockOffset, true
}

func (s *stats) trips(host string, us []int64) {
	for _, t := range us {
		d := time.Duration(t) * time.Microsecond
		s.of(host).claims.add(d)
		s.claims.add(d)
	}
}

// secondsKept is for how long a process may be late with what its hosts sent.
const secondsKept = 60

func (s *stats) sent(sent map[int64]int) {
	newest := int64(0)
	for at, n := range sent {
		if s.total == 0 || at < s.from {
			s.from = at
		}
		s.until = max(s.until, at)
		s.seconds[at] += n
		s.total += n
		if s.seconds[at] > s.peak {
			s.peak, s.peakAt = s.seconds[at], at
		}
		newest = max(newest, at)
	}
	maps.DeleteFunc(s.seconds, func(at int64, _ int) bool { return at < newest-secondsKept })
}

// won counts a win. A tick that was decided before is not fresh.
func (s *stats) won(e *Event, fresh bool) {
	j := s.job(e.Job, e.Lock)
	s.of(e.Host).wins++
	j.Won++
	j.Holds = e.Holds
	if fresh {
		j.Ticks++
	}
}

func (s *stats) held(e *Event) {
	j := s.job(e.Job, e.Lock)
	j.Ticks++
	j.Held++
	if e.What == EventSkipped {
		j.Skipped++
	}
	j.Holders[holder{cmp.Or(e.HolderJob, e.Job), e.Holder}]++
}

func (s *stats) superseded(e *Event) { s.job(e.Job, e.Lock).Skipped++ }

func (s *stats) missed(e *Event) {
	j := s.job(e.Job, e.Lock)
	j.Ticks += e.Count
	j.Miss += e.Count
}

func (s *stats) ended(e *Event) { s.job(e.Job, e.Lock).Ended[e.Outcome]++ }

func (s *stats) margin(e *Event) {
	if e.Next != "" {
		s.job(e.Job, e.Lock).Margin.add(e.Margin)
	}
}

// names are the jobs of the table in its order, those of scope "host" as the ledger has them, and after
// them those of other tables.
func (s *stats) names() []string {
	var names []string
	known := map[string]bool{}
	for i := range s.config.Jobs {
		j := &s.config.Jobs[i]
		if j.Scope != "host" {
			names = append(names, j.Name)
			known[j.Name] = true
			continue
		}
		for _, name := range slices.SortedFunc(maps.Keys(s.jobs), natural) {
			if name != j.Name && tableName(name) == j.Name {
				names = append(names, name)
				known[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if !known[name] {
			names = append(names, name)
		}
	}
	return names
}
