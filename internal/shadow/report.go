package shadow

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"rota/internal/config"
)

// Report is what came of a dry run, as far as this process saw it. Its JSON is the last line of
// rota run --dry-run --json.
type Report struct {
	Event     string       `json:"event"` // "report"
	Namespace string       `json:"namespace"`
	Shadow    string       `json:"shadow"` // what all keys of the dry run begin with
	LastedMS  int64        `json:"lasted_ms"`
	Ticks     int          `json:"ticks"`
	Jobs      []JobReport  `json:"jobs"`  // those of the table, in its order
	Locks     []LockReport `json:"locks"` // that were held when a job wanted them
	Hosts     []HostReport `json:"hosts"` // of all processes, by name
	Claims    Latency      `json:"claims"`
	Commands  Commands     `json:"commands"`
}

// JobReport is what came of one job's ticks.
type JobReport struct {
	Name    string         `json:"name"`
	Lock    string         `json:"lock"`
	Ticks   int            `json:"ticks"` // decided, one way or another
	Won     int            `json:"won"`
	Held    int            `json:"held"`    // ticks that found the lock held: they were skipped, or waited
	Skipped int            `json:"skipped"` // those that were not run for it
	Missed  int            `json:"missed"`
	HeldBy  []HeldBy       `json:"held_by"` // the most first
	Ended   map[string]int `json:"ended,omitempty"`

	MarginP50MS *float64 `json:"margin_p50_ms"` // how much later the next host came; null: none did
	HoldsMS     int64    `json:"holds_ms"`
	HoldsFrom   HoldFrom `json:"holds_from"`
	Runs        int      `json:"runs,omitempty"` // past ones, of which it is the median
	Enabled     bool     `json:"enabled"`
	Paused      bool     `json:"paused"` // in the fleet; the dry run races all the same
}

// HeldBy is who held a lock when a tick wanted it.
type HeldBy struct {
	Job   string `json:"job"`
	Host  string `json:"host"` // "": none, but max_parallel runs of the job itself
	Ticks int    `json:"ticks"`
}

// LockReport is a lock that was wanted while it was held.
type LockReport struct {
	Name       string       `json:"name"`
	Jobs       []string     `json:"jobs"` // that name it
	Contention []Contention `json:"contention"`
}

// Contention is how often one job found a lock held by another, or by itself.
type Contention struct {
	Job    string `json:"job"`
	Holder string `json:"holder_job"`
	Ticks  int    `json:"ticks"`
}

// HostReport is how one host fared.
type HostReport struct {
	Name          string  `json:"name"`
	Here          bool    `json:"here"` // it is one of this process
	Wins          int     `json:"wins"`
	Share         float64 `json:"share"` // of all wins, 0 to 1
	Claims        Latency `json:"claims"`
	ClockOffsetMS *int64  `json:"clock_offset_ms"` // its clock minus Redis'; null: not known
}

// Latency is how long claims took, from when they were sent until they were answered.
type Latency struct {
	Count int     `json:"count"`
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
}

// Commands are those that the hosts sent to Redis, of all processes, from a second after their start on,
// and without what only a dry run sends.
type Commands struct {
	PeakPerS int        `json:"peak_per_s"` // in the fullest second
	PeakAt   *time.Time `json:"peak_at"`    // null: it was over too soon to tell
	MeanPerS float64    `json:"mean_per_s"`
}

// report makes the report.
func (o *outcome) report(shadow string, lasted time.Duration) *Report {
	s := o.stats
	r := &Report{
		Event: "report", Namespace: s.namespace, Shadow: shadow, LastedMS: lasted.Milliseconds(),
		Jobs: []JobReport{}, Locks: []LockReport{}, Hosts: []HostReport{},
		Claims:   latency(&s.claims),
		Commands: Commands{PeakPerS: s.peak, MeanPerS: round(float64(s.total) / float64(s.until-s.from+1))},
	}
	if s.peak > 0 {
		r.Commands.PeakAt = new(time.Unix(s.peakAt, 0).UTC())
	}
	for _, name := range s.names() {
		j := s.jobReport(name)
		r.Ticks += j.Ticks
		r.Jobs = append(r.Jobs, j)
	}
	r.Locks = s.locks(r.Jobs)
	wins := 0
	for _, h := range s.hosts {
		wins += h.wins
	}
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		h := s.hosts[name]
		hr := HostReport{Name: name, Here: h.here, Wins: h.wins, Claims: latency(&h.claims)}
		if wins > 0 {
			hr.Share = round(float64(h.wins) / float64(wins))
		}
		if h.known {
			hr.ClockOffsetMS = new(h.offset.Milliseconds())
		}
		r.Hosts = append(r.Hosts, hr)
	}
	slices.SortStableFunc(r.Hosts, func(a, b HostReport) int { return natural(a.Name, b.Name) })
	return r
}

func (s *stats) jobReport(name string) JobReport {
	r := JobReport{Name: name, Lock: name, HeldBy: []HeldBy{}, HoldsFrom: FromNone}
	base := tableName(name)
	if i := slices.IndexFunc(s.config.Jobs, func(j config.Job) bool { return j.Name == base }); i >= 0 {
		c := &s.config.Jobs[i]
		r.Lock, r.Enabled = cmp.Or(c.Lock, c.Name), c.Enabled
		h := s.past.holds[base]
		r.HoldsMS, r.HoldsFrom, r.Runs = h.Length.Milliseconds(), h.From, h.Runs
		r.Paused = s.past.everyJob || s.past.paused[base]
	}
	j := s.jobs[name]
	if j == nil {
		return r
	}
	r.Lock = cmp.Or(j.Lock, r.Lock)
	r.Ticks, r.Won, r.Held, r.Skipped, r.Missed = j.Ticks, j.Won, j.Held, j.Skipped, j.Miss
	if len(j.Ended) > 0 {
		r.Ended = j.Ended
	}
	for h, n := range j.Holders {
		r.HeldBy = append(r.HeldBy, HeldBy{Job: h.job, Host: h.host, Ticks: n})
	}
	slices.SortFunc(r.HeldBy, func(a, b HeldBy) int {
		return cmp.Or(b.Ticks-a.Ticks, cmp.Compare(a.Job, b.Job), natural(a.Host, b.Host))
	})
	if j.Margin.n > 0 {
		r.MarginP50MS = new(millis(j.Margin.p(50)))
	}
	return r
}

// locks are those that were wanted while they were held, the most wanted first.
func (s *stats) locks(jobs []JobReport) []LockReport {
	users := map[string][]string{}
	for i := range jobs {
		users[jobs[i].Lock] = append(users[jobs[i].Lock], jobs[i].Name)
	}
	times := map[string]int{}
	by := map[string]map[Contention]int{}
	for i := range jobs {
		j := &jobs[i]
		for _, h := range j.HeldBy {
			if by[j.Lock] == nil {
				by[j.Lock] = map[Contention]int{}
			}
			by[j.Lock][Contention{Job: j.Name, Holder: h.Job}] += h.Ticks
			times[j.Lock] += h.Ticks
		}
	}
	out := []LockReport{}
	for name, who := range by {
		l := LockReport{Name: name, Jobs: users[name]}
		for c, n := range who {
			c.Ticks = n
			l.Contention = append(l.Contention, c)
		}
		slices.SortFunc(l.Contention, func(a, b Contention) int {
			return cmp.Or(b.Ticks-a.Ticks, cmp.Compare(a.Job, b.Job), cmp.Compare(a.Holder, b.Holder))
		})
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b LockReport) int {
		return cmp.Or(times[b.Name]-times[a.Name], cmp.Compare(a.Name, b.Name))
	})
	return out
}

func latency(s *spread) Latency {
	return Latency{Count: s.n, P50MS: millis(s.p(50)), P99MS: millis(s.p(99))}
}

// millis is a length in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// round keeps three digits behind the point.
func round(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }

// natural orders names so that a-10 comes after a-9.
func natural(a, b string) int {
	return cmp.Or(cmp.Compare(stem(a), stem(b)), len(a)-len(b), cmp.Compare(a, b))
}

func stem(name string) string { return strings.TrimRight(name, "0123456789") }
