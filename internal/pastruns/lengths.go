// Package pastruns tells how long the runs of a table's jobs took, from the ledger. It only reads, and in
// small steps, so that the fleet does not notice.
package pastruns

import (
	"context"
	"slices"
	"strings"
	"time"

	"rota/internal/config"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

const (
	// entriesRead is how much of a job's history is read: the newest 30 runs or so.
	entriesRead = 64
	// jobsAtOnce and pauseBetween keep the fleet from noticing: a thousand jobs take two seconds.
	jobsAtOnce   = 16
	pauseBetween = 25 * time.Millisecond
)

// Lengths returns how long the newest runs of each job took that ended by themselves, by the job's name
// in the table; of one that runs on every host, those of all hosts. A job without any is not in it. Each
// call to Redis is bounded by redis.op_timeout. An error is the ledger's, or that of ctx.
func Lengths(ctx context.Context, led *ledger.Ledger, c *config.Config, hosts []ledger.Host) (map[string][]time.Duration, error) {
	var names []string
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if j.Scope != scheduler.ScopeHost {
			names = append(names, j.Name)
			continue
		}
		for _, h := range hosts {
			if scheduler.MayRun(j.Hosts, h.Name, h.Labels) {
				names = append(names, j.Name+"@"+h.Name)
			}
		}
	}
	took := map[string][]time.Duration{}
	for chunk := range slices.Chunk(names, jobsAtOnce) {
		call, cancel := context.WithTimeout(ctx, c.Redis.OpTimeout)
		entries, _, err := led.Recent(call, chunk, entriesRead)
		cancel()
		if err != nil {
			return nil, err
		}
		for i, name := range chunk {
			job, _, _ := strings.Cut(name, "@") // no name in a table has one
			if l := lengths(entries[i]); len(l) > 0 {
				took[job] = append(took[job], l...)
			}
		}
		select {
		case <-time.After(pauseBetween):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return took, nil
}

// lengths are those of the runs that ended by themselves.
func lengths(entries []ledger.Entry) []time.Duration {
	var out []time.Duration
	for i := range entries {
		e := &entries[i]
		switch jobs.Outcome(e.Outcome) {
		case jobs.Succeeded, jobs.Failed, jobs.TimedOut:
			if !e.Started.IsZero() && !e.Ended.Before(e.Started) { // within a millisecond they are the same
				out = append(out, e.Ended.Sub(e.Started))
			}
		case jobs.Lost, jobs.Cancelled, jobs.Interrupted: // cut short
		}
	}
	return out
}
