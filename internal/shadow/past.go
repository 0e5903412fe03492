package shadow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"rota/internal/config"
	"rota/internal/pastruns"
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

	for i := range c.Jobs {
		name := c.Jobs[i].Name
		p.paused[name] = set.Paused[name].Active(now) || set.Paused[ledger.EveryHost(name)].Active(now)
	}
	took, err := pastruns.Lengths(ctx, led, c, hosts)
	if err != nil {
		return nil, err
	}
	for i := range c.Jobs {
		p.holds[c.Jobs[i].Name] = holdOf(took[c.Jobs[i].Name], assume)
	}
	return p, nil
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
