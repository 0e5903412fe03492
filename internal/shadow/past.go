package shadow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rota/internal/config"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// Hold is how long a won lease of a job is held.
type Hold struct {
	Length time.Duration
	From   HoldFrom
	Runs   int // of which it is the median; 0: of none
}

// HoldFrom is how it is known.
type HoldFrom string

// Where the length of a hold is from.
const (
	FromLedger HoldFrom = "ledger"  // the median of the job's finished runs
	Assumed    HoldFrom = "assumed" // Options.Assume
	FromNone   HoldFrom = "none"    // nothing is known: it is zero
)

// past is what the fleet's own ledger tells at the start of a dry run.
type past struct {
	holds    map[string]Hold // by the job's name in the table
	paused   map[string]bool // jobs that are, likewise
	everyJob bool            // the whole fleet is
	drained  []string        // hosts
}

const (
	// entriesRead is how much of a job's history is read: the newest 30 runs or so.
	entriesRead = 64
	// jobsAtOnce and pauseBetween keep the fleet from noticing: a thousand jobs take two seconds.
	jobsAtOnce   = 16
	pauseBetween = 25 * time.Millisecond
)

// readPast reads how long the runs of each job took, and what is paused. It writes nothing.
func readPast(ctx context.Context, led *ledger.Ledger, c *config.Config, assume time.Duration) (*past, error) {
	ask := func(call func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, c.Redis.OpTimeout)
		defer cancel()
		return call(ctx)
	}
	p := &past{holds: map[string]Hold{}, paused: map[string]bool{}}
	var hosts []ledger.Host
	var set ledger.Steering
	err := ask(func(ctx context.Context) (err error) { set, err = led.Steering(ctx); return err })
	if err == nil {
		err = ask(func(ctx context.Context) (err error) { hosts, err = led.Hosts(ctx); return err })
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_, p.everyJob = set.Paused[ledger.AllJobs]
	p.everyJob = p.everyJob && set.Paused[ledger.AllJobs].Active(now)
	p.drained = slices.Sorted(maps.Keys(set.Drained))

	var names []string
	for i := range c.Jobs {
		j := &c.Jobs[i]
		p.paused[j.Name] = set.Paused[j.Name].Active(now) || set.Paused[ledger.EveryHost(j.Name)].Active(now)
		if j.Scope != scheduler.ScopeHost {
			names = append(names, j.Name)
			continue
		}
		// Of this host, which may be down, and of those that are up.
		names = append(names, j.Name+"@"+c.Host.Name)
		for _, h := range hosts {
			if h.Name != c.Host.Name && scheduler.MayRun(j.Hosts, h.Name, h.Labels) {
				names = append(names, j.Name+"@"+h.Name)
			}
		}
	}
	took := map[string][]time.Duration{}
	for chunk := range slices.Chunk(names, jobsAtOnce) {
		var entries [][]ledger.Entry
		err := ask(func(ctx context.Context) (err error) {
			entries, _, err = led.Recent(ctx, chunk, entriesRead)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, name := range chunk {
			job := tableName(name)
			took[job] = append(took[job], lengths(entries[i])...)
		}
		if !pause(ctx, pauseBetween) {
			return nil, context.Cause(ctx)
		}
	}
	for i := range c.Jobs {
		p.holds[c.Jobs[i].Name] = holdOf(took[c.Jobs[i].Name], assume)
	}
	return p, nil
}

// lengths are those of the runs that ended by themselves.
func lengths(entries []ledger.Entry) []time.Duration {
	var out []time.Duration
	for i := range entries {
		e := &entries[i]
		switch jobs.Outcome(e.Outcome) {
		case jobs.Succeeded, jobs.Failed, jobs.TimedOut:
			if !e.Started.IsZero() && !e.Ended.Before(e.Started) {
				out = append(out, e.Ended.Sub(e.Started))
			}
		case jobs.Lost, jobs.Cancelled, jobs.Interrupted: // cut short
		}
	}
	return out
}

func holdOf(took []time.Duration, assume time.Duration) Hold {
	switch {
	case len(took) > 0:
		slices.Sort(took)
		return Hold{Length: took[(len(took)-1)/2], From: FromLedger, Runs: len(took)}
	case assume > 0:
		return Hold{Length: assume, From: Assumed}
	}
	return Hold{From: FromNone}
}

// notes are what a person should know of it before the race.
func (p *past) notes() []string {
	var notes []string
	if p.everyJob {
		notes = append(notes, "the fleet is paused; the dry run races all the same")
	}
	for _, job := range slices.Sorted(maps.Keys(p.paused)) {
		if p.paused[job] {
			notes = append(notes, fmt.Sprintf("%s is paused in the fleet; the dry run races for it all the same", job))
		}
	}
	for _, h := range p.drained {
		notes = append(notes, fmt.Sprintf("%s is drained in the fleet; the dry run does not heed that", h))
	}
	return notes
}
