package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"rota/scheduler/ledger"
)

// Options of a [Scheduler].
type Options struct {
	Ledger *ledger.Ledger // required
	// Urgent is the same ledger through a client of its own, for renewals and heartbeats: they
	// must not wait behind the claims and outcomes of a thousand jobs. Nil: Ledger.
	Urgent *ledger.Ledger
	Jobs   []Job  // the table; the same on every host
	Table  string // hash of the table: hosts with the same one share what they know of an instant

	Namespace string // the fleet; told to runs
	Host      string // this host's name, unique in the fleet, as [ledger.CheckName] wants it; required
	Labels    []string
	Version   string
	Config    string // path of the config file; told to runs
	Socket    string // on which this host answers its runs, see [Scheduler.TokenOf]; told to runs

	TTL        time.Duration // of a lease; 0: 30 s
	RenewEvery time.Duration // 0: 5 s
	LossGrace  time.Duration // between SIGTERM and SIGKILL when a lease is being lost; 0: none
	FailFast   bool          // a run ends at the first renewal that fails
	OpTimeout  time.Duration // of any one call to Redis; 0: 1.5 s

	MaxRuns     int           // at once on this host, of jobs that count, manual ones too; 0: 4 × CPUs
	MaxAge      time.Duration // how far a job's history goes back, to a day; its newest run stays. 0: 14 days
	OutputBytes int           // kept of a run's output; 0: 16 KiB
	Outcomes    OutcomeStore  // keeps outcomes while Redis is away, for the next process too; nil: they are kept in memory alone
	Drain       time.Duration // how long runs may go on once Run is told to end; 0: they are interrupted at once
	StopGrace   time.Duration // how long interrupted handlers may take to return, unless they say that they need longer. 0: 30 s

	// Observe hears of every answer to a claim, and of every tick that this host left to another. The
	// goroutines that claim call it, several at once; it must not block. Nil: nobody watches.
	Observe func(Sight)

	// Boottime reads a clock that goes on while the machine sleeps. Nil: CLOCK_BOOTTIME. In a
	// testing/synctest bubble pass one that stands still.
	Boottime func() time.Duration

	// ClockOffset makes a host whose wall clock is off by that. For tests.
	ClockOffset time.Duration

	// Logger may block, for as long as it likes: nothing but what runs print waits for it. Of the
	// scheduler's own lines 1,000 are kept until it takes them. Nil: nothing is logged.
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	o.TTL = orDuration(o.TTL, 30*time.Second)
	o.RenewEvery = orDuration(o.RenewEvery, 5*time.Second)
	o.OpTimeout = orDuration(o.OpTimeout, 1500*time.Millisecond)
	o.StopGrace = orDuration(o.StopGrace, 30*time.Second)
	o.MaxAge = orDuration(o.MaxAge, 14*24*time.Hour)
	if o.MaxRuns == 0 {
		o.MaxRuns = 4 * runtime.GOMAXPROCS(0)
	}
	if o.OutputBytes == 0 {
		o.OutputBytes = 16 << 10
	}
	if o.Urgent == nil {
		o.Urgent = o.Ledger
	}
}

func (o *Options) check() error {
	var faults []error
	if o.Ledger == nil {
		faults = append(faults, errors.New("scheduler: Ledger is nil"))
	}
	if o.Host == "" {
		faults = append(faults, errors.New("scheduler: Host is empty"))
	} else if err := ledger.CheckName(o.Host); err != nil {
		faults = append(faults, fmt.Errorf("scheduler: Host: %w", err))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"TTL", o.TTL},
		{"RenewEvery", o.RenewEvery},
		{"LossGrace", o.LossGrace},
		{"OpTimeout", o.OpTimeout},
		{"MaxAge", o.MaxAge},
		{"Drain", o.Drain},
		{"StopGrace", o.StopGrace},
	} {
		if d.d < 0 {
			faults = append(faults, fmt.Errorf("scheduler: %s is %s, want 0 or more", d.name, d.d))
		}
	}
	if least := LeastTTL(o.RenewEvery, o.LossGrace, o.OpTimeout); o.TTL > 0 && o.TTL < least {
		faults = append(faults, fmt.Errorf(
			"scheduler: TTL is %s, want %s or more: a lease must outlast three renewals, the grace and a call", o.TTL, least))
	}
	if o.MaxRuns < 0 {
		faults = append(faults, fmt.Errorf("scheduler: MaxRuns is %d, want 0 or more", o.MaxRuns))
	}
	return errors.Join(faults...)
}

// LeastTTL is the shortest lease that is safe with these values, rounded up to a millisecond: three
// renewals may fail and one call hang, and there is still the grace of the run before the trust
// deadline. The 6 % of the lease itself are what lies between that and its end: 1 % of margin, which
// package locking explains, and 5 % for the last SIGKILL, with 50 ms for what of both does not shrink.
func LeastTTL(renewEvery, lossGrace, opTimeout time.Duration) time.Duration {
	fixed := 3*renewEvery + lossGrace + opTimeout + 50*time.Millisecond
	least := (fixed*100 + 93) / 94 // rounded up: fixed is what 94 % of a lease must hold
	return (least + time.Millisecond - 1).Truncate(time.Millisecond)
}

func orDuration(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}
