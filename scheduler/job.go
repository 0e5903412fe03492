package scheduler

import (
	"slices"
	"time"

	"rota/jobs"
	"rota/scheduler/schedule"
)

// Job is one entry of the cron table: when it is due, what it runs, and the policies for the
// ticks that cannot simply run. The zero value of each policy is its default.
//
// A Job is never changed once it is in a table; several goroutines read it.
type Job struct {
	Name     string             // as [ledger.CheckName] wants it
	Schedule *schedule.Schedule // nil only for a job that runs by hand alone
	Handler  jobs.Handler
	Counts   bool // a run takes one of the places of Options.MaxRuns; for programs and requests
	Disabled bool // never due; can still be triggered with force

	// Definition is a hash of everything that decides what runs, so that the ledger can tell
	// which of two tables a run came from. ScheduleHash covers only what decides when: the
	// schedule, its zone, and whether the job is enabled.
	Definition   string
	ScheduleHash string

	Scope Scope
	Hosts []string // names or labels of the hosts that may run it, one match is enough; none: all

	Lock string // the lock's name, likewise; "" is the job's own

	Timeout       time.Duration // of one run, all its attempts together; 0: none
	StartDeadline time.Duration // how late a tick may start; 0: half the gap to the next tick, within 5 s … 1 h
	Splay         time.Duration // the start is delayed by a hash of the name, below this; 0: not at all

	Overlap     Overlap
	MaxParallel int // runs at once under OverlapAllow; 0: 10
	Misfire     Misfire
	OnCrash     OnCrash

	elsewhere bool // this host may not run it
}

// On is the job as a host with these labels has it: one with a scope of its own for each host is called
// NAME@HOST there, and so is its lock. One that the host may not run has no ticks there.
func (j Job) On(host string, labels []string) Job {
	switch {
	case !MayRun(j.Hosts, host, labels):
		j.elsewhere = true
	case j.Scope == ScopeHost:
		j.Lock = j.LockName() + "@" + host
		j.Name += "@" + host
	}
	return j
}

// due tells whether the job has ticks on this host.
func (j *Job) due() bool { return !j.Disabled && !j.elsewhere && j.Schedule != nil }

// MayRun tells whether a host by that name, with these labels, is among those of a job: no hosts are
// all of them.
func MayRun(hosts []string, name string, labels []string) bool {
	return len(hosts) == 0 || slices.ContainsFunc(hosts, func(h string) bool {
		return h == name || slices.Contains(labels, h)
	})
}

// Parallel is how many runs of the job may overlap, where its policy lets them.
func (j *Job) Parallel() int {
	if j.MaxParallel > 0 {
		return j.MaxParallel
	}
	return 10
}

// LockName is the name of the lock that a run of the job holds.
func (j *Job) LockName() string {
	if j.Lock != "" {
		return j.Lock
	}
	return j.Name
}
