package demo

import (
	"cmp"
	"slices"
	"time"
)

// A cell says what one host did about one tick.
type cell int

const (
	silent cell = iota
	won
	lost
	left
	skipped
	missed
	killed
)

// A row is the race for one tick.
type row struct {
	tick   time.Time
	job    string
	cells  []cell // by host
	token  int64
	lag    time.Duration
	holder string    // skipped: who held the lock
	alive  bool      // skipped: the holder was not killed
	took   *takeover // the run takes the job over from a host that was killed

	index int       // of the job in the table
	seen  time.Time // when the first host said something, by our clock
}

// takeover is a job's first run after one that was lost with its host.
type takeover struct {
	job        string
	from, to   string // hosts
	old, token int64
}

// openRun is a run that has started and not ended.
type openRun struct {
	host  string
	tick  time.Time
	token int64
}

// The board puts together what the hosts say, each in its own time, into one row a tick. It is
// pure: it reads no clock.
type board struct {
	hosts []string
	jobs  []string

	// Only ticks in (from, until] are shown; a zero from shows none, a zero until has no end.
	from, until time.Time

	pending []*row               // in the order of tick and table
	shown   map[string]time.Time // the newest tick that was shown, by job
	started map[string]time.Time // the newest tick that was run, by job
	open    map[string]openRun   // by job
	orphans map[string]openRun   // by job: the run that was lost with its host
	dead    []string

	ticks, runs, doubles int // so far, as the logs have it
}

// patience is how long a row waits for hosts that say nothing. The last rank of nine has its turn
// after some 200 ms, and whoever is late may claim the tick until the next one is due.
const patience = 1200 * time.Millisecond

func newBoard(hosts, jobs []string) *board {
	return &board{
		hosts: hosts, jobs: jobs,
		shown: map[string]time.Time{}, started: map[string]time.Time{},
		open: map[string]openRun{}, orphans: map[string]openRun{},
	}
}

// add takes an event in that was read at now.
func (b *board) add(e event, now time.Time) {
	if e.kind == runEnded {
		if b.open[e.job].token == e.token {
			delete(b.open, e.job)
		}
		return
	}
	if b.from.IsZero() || !e.tick.After(b.from) || !b.until.IsZero() && e.tick.After(b.until) {
		return
	}
	if e.kind == runStarted {
		b.open[e.job] = openRun{e.host, e.tick, e.token}
		b.runs++
		if b.started[e.job].Equal(e.tick) {
			b.doubles++
		}
		b.started[e.job] = e.tick
	}
	r := b.row(e, now)
	host := slices.Index(b.hosts, e.host)
	if r == nil || host < 0 {
		return
	}
	switch e.kind {
	case runStarted:
		r.cells[host], r.token, r.lag = won, e.token, e.lag
		if o, ok := b.orphans[e.job]; ok {
			r.took = &takeover{job: e.job, from: o.host, to: e.host, old: o.token, token: e.token}
			delete(b.orphans, e.job)
		}
	case claimLost:
		r.cells[host] = lost
	case tickLeft:
		r.cells[host] = left
	case tickSkipped:
		r.cells[host], r.holder = skipped, e.holder
		r.alive = !slices.Contains(b.dead, e.holder)
	case tickMissed:
		r.cells[host] = missed
	case runEnded: // was dealt with above
	}
}

// row finds the row of an event, and makes those of its tick if they are not there: the jobs are
// all due at the same ticks. Nil: it was shown already.
func (b *board) row(e event, now time.Time) *row {
	var of *row
	for i, job := range b.jobs {
		if !e.tick.After(b.shown[job]) {
			continue
		}
		r := &row{tick: e.tick, job: job, index: i, cells: make([]cell, len(b.hosts)), seen: now}
		at, found := slices.BinarySearchFunc(b.pending, r, func(x, y *row) int {
			return cmp.Or(x.tick.Compare(y.tick), cmp.Compare(x.index, y.index))
		})
		if !found {
			for k, name := range b.hosts {
				if slices.Contains(b.dead, name) {
					r.cells[k] = killed
				}
			}
			b.pending = slices.Insert(b.pending, at, r)
			b.ticks++
		}
		if job == e.job {
			of = b.pending[at]
		}
	}
	return of
}

// die says that a host was killed, and returns the jobs whose runs are lost with it.
func (b *board) die(host string) (jobs []string) {
	b.dead = append(b.dead, host)
	for i, name := range b.hosts {
		for _, r := range b.pending {
			if name == host && r.cells[i] == silent {
				r.cells[i] = killed
			}
		}
	}
	for _, job := range b.jobs {
		if o, ok := b.open[job]; ok && o.host == host {
			b.orphans[job] = o
			delete(b.open, job)
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// flush returns the rows that may be shown at now: those to which every host has said something
// and those that waited long enough, as long as none before them waits. all returns every row.
func (b *board) flush(now time.Time, all bool) []*row {
	n := 0
	for _, r := range b.pending {
		if slices.Contains(r.cells, silent) && now.Sub(r.seen) < patience && !all {
			break
		}
		b.shown[r.job] = r.tick // whatever is said of it from here on comes too late
		n++
	}
	rows := b.pending[:n:n]
	b.pending = b.pending[n:]
	return rows
}

// waits tells whether a row of a tick, or of one before it, is still to be shown.
func (b *board) waits(tick time.Time) bool {
	return len(b.pending) > 0 && !b.pending[0].tick.After(tick)
}
