package preview

import (
	"errors"
	"fmt"
	"time"

	"rota/scheduler"
	"rota/scheduler/ledger"
)

// Options say which table is replayed, for which window, and over which fleet. The zero value of
// each field is its default.
type Options struct {
	Jobs  []Job  // the table, in its order; it is read only
	Hosts []Host // none: five, called host-1 to host-5

	From time.Time     // the first instant of the window, cut to its second; zero: now
	For  time.Duration // its length; 0: 24 h

	// Seed makes two replays of one table the same: durations, latencies and errors of clocks are
	// drawn from it. Who comes first for a tick is not drawn, it follows from the names of the hosts.
	Seed uint64

	// Skew is how far a host's idea of Redis' clock is off: another error for each claim, evenly
	// between -Skew and +Skew. 0: 1 ms, which is the resolution of that clock; below 0: none.
	Skew time.Duration

	Latency Latency // of one claim

	TTL        time.Duration // of a lease; 0: 30 s
	RenewEvery time.Duration // 0: 5 s

	// Progress, if set, is called from time to time with the share that is done, from 0 to 1. It never
	// falls. It is called from one goroutine at a time and should return at once.
	Progress func(share float64)

	seen func(job string, tick int64, what string, host int, lag int64) // hears what becomes of each tick; host and lag are a run's
}

// Job is one entry of the table with what is known of its runs.
type Job struct {
	scheduler.Job // Handler is not used and may be nil

	// Durations are how long past runs took; each run takes one of them, drawn evenly. None: a run
	// takes no time. Negative ones are refused.
	Durations []time.Duration

	// KillGrace is how long a run goes on once it was asked to end, by its timeout or by a newer tick
	// under overlap "replace", if it would have lasted that long anyway. 0: it ends when asked.
	KillGrace time.Duration
}

// Host is one virtual host.
type Host struct {
	Name    string
	Labels  []string
	MaxRuns int // runs at once of jobs that count; 0: 16
}

// Latency is how long a claim takes to Redis and back: log-normal, by two of its quantiles. Half of
// it passes before Redis decides.
type Latency struct {
	Median time.Duration // 0: 0.5 ms; below 0: none at all
	P99    time.Duration // 0: six times the median
}

const (
	defaultWindow  = 24 * time.Hour
	defaultHosts   = 5
	defaultMaxRuns = 16
	longestWindow  = 10 * 366 * 24 * time.Hour
)

// HostsNamed makes n hosts, called host-1 and so on.
func HostsNamed(n int) []Host {
	out := make([]Host, n)
	for i := range out {
		out[i] = Host{Name: fmt.Sprintf("host-%d", i+1)}
	}
	return out
}

// complete fills the defaults in and says what is wrong, all of it.
func (o *Options) complete() error {
	if len(o.Hosts) == 0 {
		o.Hosts = HostsNamed(defaultHosts)
	}
	if o.From.IsZero() {
		o.From = time.Now()
	}
	o.From = o.From.UTC().Truncate(time.Second)
	if o.For == 0 {
		o.For = defaultWindow
	}
	if o.Skew == 0 {
		o.Skew = time.Millisecond
	}
	o.Skew = max(o.Skew, 0)
	if o.Latency.Median == 0 {
		o.Latency.Median = 500 * time.Microsecond
	}
	if o.Latency.Median < 0 {
		o.Latency = Latency{}
	} else if o.Latency.P99 == 0 {
		o.Latency.P99 = 6 * o.Latency.Median
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.RenewEvery == 0 {
		o.RenewEvery = 5 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(float64) {}
	}
	return o.check()
}

func (o *Options) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("preview: "+format, args...)) }
	if o.For < time.Second || o.For > longestWindow {
		fault("For is %s, want 1s … %s", o.For, longestWindow)
	}
	// Instants are counted in nanoseconds, which end in 2262.
	if y := o.From.Year(); y < 1971 || y > 2200 {
		fault("From is in the year %d, want 1971 … 2200", y)
	}
	if o.Latency.P99 < o.Latency.Median {
		fault("Latency.P99 is %s, below the median of %s", o.Latency.P99, o.Latency.Median)
	}
	if o.TTL < 0 || o.RenewEvery < 0 {
		fault("TTL is %s and RenewEvery %s, want 0 or more", o.TTL, o.RenewEvery)
	}
	seen := map[string]bool{}
	for i := range o.Hosts {
		h := &o.Hosts[i]
		switch {
		case ledger.CheckName(h.Name) != nil:
			fault("host %d: %w", i, ledger.CheckName(h.Name))
		case seen[h.Name]:
			fault("two hosts are called %q", h.Name)
		case h.MaxRuns < 0:
			fault("host %q: MaxRuns is %d, want 0 or more", h.Name, h.MaxRuns)
		}
		seen[h.Name] = true
	}
	seen = map[string]bool{}
	for i := range o.Jobs {
		j := &o.Jobs[i]
		switch {
		case ledger.CheckName(j.Name) != nil:
			fault("job %d: %w", i, ledger.CheckName(j.Name))
		case seen[j.Name]:
			fault("two jobs are called %q", j.Name)
		case j.KillGrace < 0:
			fault("job %q: KillGrace is %s, want 0 or more", j.Name, j.KillGrace)
		}
		for _, d := range j.Durations {
			if d < 0 {
				fault("job %q: a run cannot take %s", j.Name, d)
			}
		}
		seen[j.Name] = true
	}
	return errors.Join(faults...)
}
