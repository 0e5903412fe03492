package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"rota/scheduler/ledger"
)

// table is the cron table in force, as this host has it. It is replaced as a whole and never changed:
// whoever holds one, a race or a run, goes on with it. Since alone is the scheduler's, and guarded by
// its lock.
type table struct {
	jobs []Job
	hash string
	at   map[string]int // a job's place

	// since is when this host first loaded a job's schedule, by Redis' clock; ticks up to then
	// are not due. A job that is missing here was there when Redis was first reached.
	since map[string]time.Time
}

// newTable makes the table of a host out of that of the fleet. Each job keeps its place.
func newTable(jobs []Job, hash, host string, labels []string) (*table, error) {
	t := &table{jobs: slices.Clone(jobs), hash: hash, at: map[string]int{}, since: map[string]time.Time{}}
	var faults []error
	given := map[string]bool{}
	for i := range t.jobs {
		// Names are checked as they were given: each host's own have an @ in them.
		j := &jobs[i]
		t.jobs[i] = j.On(host, labels)
		switch {
		case j.Name == "":
			faults = append(faults, fmt.Errorf("scheduler: job %d has no name", i))
		case ledger.CheckName(j.Name) != nil:
			faults = append(faults, fmt.Errorf("scheduler: job %d: %w", i, ledger.CheckName(j.Name)))
		case ledger.CheckName(j.LockName()) != nil:
			faults = append(faults, fmt.Errorf("scheduler: job %q: Lock: %w", j.Name, ledger.CheckName(j.Lock)))
		case given[j.Name]:
			faults = append(faults, fmt.Errorf("scheduler: two jobs are called %q", j.Name))
		case j.Handler == nil:
			faults = append(faults, fmt.Errorf("scheduler: job %q has no Handler", j.Name))
		}
		given[j.Name] = true
		t.at[t.jobs[i].Name] = i
	}
	return t, errors.Join(faults...)
}

// job returns the job by that name, nil if the table has none.
func (t *table) job(name string) (j *Job, index int) {
	i, ok := t.at[name]
	if !ok {
		return nil, -1
	}
	return &t.jobs[i], i
}

// Reload puts another table in force, all of it or, with an error, nothing. Runs that are going
// on are not touched, and end under the policies they began with. Jobs whose schedule is the
// same keep their phase; new and edited ones are due from now on, never for what has passed.
func (s *Scheduler) Reload(jobs []Job, hash string) error {
	next, err := newTable(jobs, hash, s.opt.Host, s.opt.Labels)
	if err != nil {
		return err
	}
	known, now := s.clock.known(), s.clock.Now()
	s.mu.Lock()
	old := s.table
	for i := range next.jobs {
		j := &next.jobs[i]
		if was, _ := old.job(j.Name); was != nil && was.ScheduleHash == j.ScheduleHash {
			if since, ok := old.since[j.Name]; ok {
				next.since[j.Name] = since
			}
		} else if known {
			next.since[j.Name] = now
		}
	}
	s.table = next
	s.mu.Unlock()
	select {
	case s.reloaded <- struct{}{}:
	default: // the loop has one to look at, and will find the newest
	}
	return nil
}

// current is the table in force.
func (s *Scheduler) current() *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

// sinceOf is when a job of the table became due. The caller holds the lock.
func (s *Scheduler) sinceOf(t *table, job string) time.Time {
	if since, ok := t.since[job]; ok {
		return since
	}
	return s.since
}

// sinceBack takes back what lies ahead of Redis' clock, which has been set back: nobody may have to
// wait until the clock is there again.
func (s *Scheduler) sinceBack(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = minTime(s.since, now)
	for job, since := range s.table.since {
		s.table.since[job] = minTime(since, now)
	}
}
