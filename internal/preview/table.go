package preview

import (
	"slices"
	"time"

	"rota/scheduler"
)

// entry is one job as the planner has it: one of the table, or one host's own of a job with scope "host".
// The decider alone changes what is below the line.
type entry struct {
	job  int           // its place in the table
	plan scheduler.Job // as the hosts have it
	may  []int         // hosts that may run it
	name []string      // theirs, in that order
	lock *lock

	hash                  uint64 // of its name
	delay, timeout, grace int64
	durations             []time.Duration
	stat                  *jobStat

	// ---
	cursor    int64  // the newest tick decided, in seconds; 0: none
	newest    tick   // the last one that was due
	open      []tick // due and not decided, oldest first
	waiting   tick   // the one that waits for the lock; its tick is 0: there is none
	run       *run   // the newest one, while it goes on
	going     int    // runs at once
	busySince int64
	carers    []int // hosts that look after the job
	owedFrom  int64 // when a tick was first found to be caught up; 0: none is
}

// tick is one Due, small. Instants are nanoseconds since 1970, ticks are whole seconds.
type tick struct {
	entry        int32
	first        int32 // the host that comes first; below 0: none may run the job
	tick, next   int64 // seconds; next 0: there is none
	at, deadline int64

	lined bool // it found a host without a place

	// A claim of a tick that is caught up has another deadline, or none.
	lateClaim bool
	was       int64 // the start deadline
}

// lock is one lock, with the run that holds it.
type lock struct {
	stat   *lockStat
	holder *run
	since  int64
	// Waiting are the entries with ticks that wait for it.
	waiting []int32
	// Runs of "allow" hold leases of their own, named by lock and tick: jobs that share the lock meet there.
	shared bool
	leases []*run
}

// virtual is one host.
type virtual struct {
	free int
	line []arrival
	runs int
	stat HostReport
}

// arrival is a tick, or a job that owes one, in the line of a host that has no place.
type arrival struct {
	try  *try  // nil: a job that owes one
	owes int32 // its entry
}

// fleet is a table spread over the hosts.
type fleet struct {
	entries []entry
	jobs    []scheduler.Job // of the entries, for the planner
	locks   map[string]*lock
	hosts   []virtual
}

// spreadOut makes the entries of a table: what each host would have in its own.
func spreadOut(opt *Options, stats *stats) *fleet {
	f := &fleet{locks: map[string]*lock{}, hosts: make([]virtual, len(opt.Hosts))}
	for i, h := range opt.Hosts {
		places := h.MaxRuns
		if places == 0 {
			places = defaultMaxRuns
		}
		f.hosts[i] = virtual{free: places, stat: HostReport{Host: h.Name, MaxRuns: places}}
	}
	allows := map[*lock]int{}
	for i := range opt.Jobs {
		j := &opt.Jobs[i]
		var may []int
		for h := range opt.Hosts {
			if scheduler.MayRun(j.Hosts, opt.Hosts[h].Name, opt.Hosts[h].Labels) {
				may = append(may, h)
			}
		}
		stats.jobs[i].hosts = len(may)
		add := func(plan scheduler.Job, lockName string, may []int) {
			l := f.locks[plan.LockName()]
			if l == nil {
				l = &lock{stat: stats.lock(lockName)}
				l.stat.copies++
				f.locks[plan.LockName()] = l
			}
			if !slices.Contains(l.stat.jobs, j.Name) {
				l.stat.jobs = append(l.stat.jobs, j.Name)
			}
			if plan.Overlap == scheduler.OverlapAllow {
				allows[l]++
				l.shared = allows[l] > 1
			}
			e := entry{
				hash: hashOf(plan.Name), job: i, plan: plan, may: may, lock: l, stat: &stats.jobs[i], durations: j.Durations,
				delay: int64(plan.Delay()), timeout: int64(j.Timeout), grace: int64(j.KillGrace),
			}
			for _, h := range may {
				e.name = append(e.name, opt.Hosts[h].Name)
			}
			e.stat.delay += e.delay
			e.stat.copies++
			f.entries = append(f.entries, e)
			f.jobs = append(f.jobs, plan)
		}
		if j.Scope != scheduler.ScopeHost || len(may) == 0 {
			add(j.Job, lockNameOf(&j.Job), may)
			continue
		}
		for _, h := range may {
			add(j.On(opt.Hosts[h].Name, opt.Hosts[h].Labels), lockNameOf(&j.Job), []int{h})
		}
	}
	return f
}

// lockNameOf is the lock's name in the report.
func lockNameOf(j *scheduler.Job) string {
	if j.Scope == scheduler.ScopeHost {
		return j.LockName() + "@*"
	}
	return j.LockName()
}
