package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"
)

// race starts the claims for ticks that are due. It does not wait for them.
func (s *Scheduler) race(ctx context.Context, tab *table, due []Due) {
	due = slices.DeleteFunc(due, func(d Due) bool { return s.isStuck(d.Job.Name) })
	if len(due) == 0 {
		return
	}
	step := Step(s.clock.p99())
	byRank := map[int][]Due{}
	for _, d := range due {
		r := min(rank(d.Job.Name, d.Tick, s.opt.Host, s.rivals(d.Job)), lastStep)
		byRank[r] = append(byRank[r], d)
	}
	start := time.Now()
	for r, group := range byRank {
		s.spawn(func() {
			if r > 0 {
				if !sleep(ctx, time.Until(start.Add(turn(r, step)))) {
					return
				}
				group = s.untaken(ctx, tab, group)
			}
			s.claimAll(ctx, tab, group)
		})
	}
}

// untaken leaves out the ticks that another host has decided meanwhile: one read an instant.
// If that fails, everything is claimed: the claim itself decides.
func (s *Scheduler) untaken(ctx context.Context, tab *table, due []Due) []Due {
	type instant struct {
		taken func(int) bool
		at    time.Time
	}
	seen := map[time.Time]instant{}
	return slices.DeleteFunc(due, func(d Due) bool {
		in, ok := seen[d.Tick]
		if !ok {
			ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
			in.taken, _ = s.opt.Ledger.Taken(ctx, tab.hash, d.Tick)
			cancel()
			in.at = s.clock.Now()
			seen[d.Tick] = in
		}
		if in.taken == nil || !in.taken(d.Index) {
			return false
		}
		s.know(d.Job.Name, d.Tick)
		s.guard(d.Job, d.Tick)
		s.observeLeft(d, in.at)
		s.log.Debug("left tick to another host", "job", d.Job.Name, "tick", d.Tick)
		return true
	})
}

const (
	pipeline = 64 // claims sent at once
	inFlight = 2  // pipelines under way
)

// claimAll claims ticks in pipelines and settles each.
func (s *Scheduler) claimAll(ctx context.Context, tab *table, due []Due) {
	slots := make(chan struct{}, inFlight)
	var wg sync.WaitGroup
	for chunk := range slices.Chunk(due, pipeline) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			tries := make([]*try, 0, len(chunk))
			for _, d := range chunk {
				if t := s.newTry(tab, d); s.room.enter(t) {
					tries = append(tries, t)
				} else {
					s.log.Debug("tick waits", "job", d.Job.Name, "tick", d.Tick, "reason", "the host is full")
					s.room.wait(t.arrival())
				}
			}
			s.send(ctx, tries)
		})
	}
	wg.Wait()
}

// rivals are the hosts that may claim ticks of a job: seen lately, not draining, and its own.
func (s *Scheduler) rivals(j *Job) []string {
	if j.Scope == ScopeHost {
		return nil // nobody else
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(j.Hosts) == 0 {
		return s.fleet
	}
	return slices.DeleteFunc(slices.Clone(s.fleet), func(h string) bool { return !MayRun(j.Hosts, h, s.labels[h]) })
}

// raced tells whether anybody may look what this host has taken of a job's ticks.
func (s *Scheduler) raced(j *Job) bool {
	return slices.ContainsFunc(s.rivals(j), func(h string) bool { return h != s.opt.Host })
}

// sleep waits and tells whether ctx still lasts.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
