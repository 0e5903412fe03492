package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// JobState is what the ledger knows of one job.
type JobState struct {
	Job     string
	Known   bool      // there is a record
	Cursor  time.Time // the newest tick decided; zero: none
	Future  bool      // the cursor lies ahead of Redis' clock: no tick can be claimed; see [Ledger.Reset]
	Since   time.Time // ticks up to this are not due
	Waiting time.Time // the tick that waits for the lock; zero: none
	Open    time.Time // a tick that was won and given back; zero: none
	Last    *Entry    // the newest run or skip; nil: none

	Paused     bool   // by one of the next three, or several
	Pause      *Pause // the job's own; nil: there is none, or it is over
	EveryPause *Pause // of a job that a host has for itself, that of [EveryHost]; nil: likewise
	FleetPause *Pause // that of the whole fleet; nil: likewise

	Running   bool
	Holder    string // of the running run: its host
	HolderRun string
	Token     int64
	Left      time.Duration // of its lease
	Going     []Going       // every run whose lease lives, the newest first; several only where they may overlap

	// Err matches locking.ErrConflict where a key of the job holds another type, and names it: what
	// was to be read there is missing, and the job cannot be claimed. Nil: there is none.
	Err error
}

// PausedBy returns the pause that ends last: the one after which the job has ticks again. Nil:
// it is not paused.
func (s *JobState) PausedBy() (last *Pause) {
	for _, p := range []*Pause{s.Pause, s.EveryPause, s.FleetPause} {
		if last == nil || p != nil && p.Until.After(last.Until) {
			last = p
		}
	}
	return last
}

// futureSlack is how far a cursor may lie ahead of Redis' clock; the claim's rule is the same.
const futureSlack = time.Second

// State reads the records of jobs, in their order, in two round trips. A foreign key of one job is
// in its Err and leaves the others as they are.
func (l *Ledger) State(ctx context.Context, jobs []string) ([]JobState, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	pipe := l.client.Pipeline()
	clock := l.askTime(ctx, pipe)
	fleet := pipe.HMGet(ctx, l.keys.paused(), "from", "until", "who", "why")
	all := make([]jobReads, len(jobs))
	every := map[string]*redis.SliceCmd{}
	for i, job := range jobs {
		if name := EveryHostOf(job); name != "" && name != job && every[name] == nil {
			every[name] = pipe.HMGet(ctx, l.keys.record(name), "pause_from", "pause_until", "pause_who", "pause_why")
		}
		all[i].record = pipe.HGetAll(ctx, l.keys.record(job))
		// Eight entries hold the newest run whole, whatever came with it.
		all[i].runs = pipe.XRevRangeN(ctx, l.keys.runs(job), "+", "-", 8)
		all[i].skips = pipe.XRevRangeN(ctx, l.keys.skips(job), "+", "-", 1)
	}
	if err := execEach(ctx, pipe); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if err := commandError(fleet); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	now := clock()
	pipe = l.client.Pipeline()
	for i := range all {
		rec := all[i].record.Val()
		if rec["run_state"] == "running" {
			all[i].lease = pipe.Get(ctx, rec["run_lock"])
			all[i].left = pipe.PTTL(ctx, rec["run_lock"])
		}
		all[i].going = askGoing(ctx, pipe, rec)
	}
	if pipe.Len() > 0 {
		if err := execEach(ctx, pipe); err != nil {
			return nil, fmt.Errorf("status: leases: %w", err)
		}
	}
	fleetPause := pauseOf(fleet, now)
	states := make([]JobState, len(jobs))
	for i, job := range jobs {
		s := all[i].state(job, now)
		s.FleetPause = fleetPause
		if p := every[EveryHostOf(job)]; p != nil {
			s.EveryPause, s.Err = pauseOf(p, now), cmp.Or(s.Err, commandError(p))
		}
		s.Paused = s.PausedBy() != nil
		states[i] = s
	}
	return states, nil
}

// jobReads are the answers about one job.
type jobReads struct {
	record      *redis.MapStringStringCmd
	runs, skips *redis.XMessageSliceCmd
	lease       *redis.StringCmd // nil unless the record has a running run
	left        *redis.DurationCmd
	going       []goingReads
}

func (q *jobReads) state(job string, now time.Time) JobState {
	rec := q.record.Val()
	s := JobState{
		Job: job, Known: len(rec) > 0, Cursor: at(rec, "tick"), Since: at(rec, "since"), Waiting: at(rec, "wait_tick"),
		Pause: activePause(now, rec["pause_from"], rec["pause_until"], rec["pause_who"], rec["pause_why"]),
	}
	s.Err = cmp.Or(commandError(q.record), commandError(q.runs), commandError(q.skips))
	if q.lease != nil && s.Err == nil {
		s.Err = commandError(q.lease)
	}
	s.Future = s.Cursor.After(now.Add(futureSlack))
	if rec["run_state"] == "open" {
		s.Open = at(rec, "run_tick")
	}
	fence, _ := strconv.ParseInt(rec["run_fence"], 10, 64)
	if q.lease != nil && fence > 0 && leaseFence(q.lease.Val()) == fence {
		s.Running, s.Holder, s.HolderRun, s.Token, s.Left = true, rec["run_host"], rec["run_id"], fence, q.left.Val()
	}
	s.Going = going(rec, q.going, s.Running)
	s.Last = newest(mergeRuns(job, q.runs.Val()), s)
	for _, m := range q.skips.Val() {
		if e := readEntry(job, m); s.Last == nil || e.At().After(s.Last.At()) {
			s.Last = &e
		}
	}
	return s
}

func newest(entries []Entry, s JobState) *Entry {
	var last *Entry
	for i := range entries {
		e := &entries[i]
		if e.Outcome == OutcomeRunning && !(s.Running && e.Run == s.HolderRun) {
			e.Outcome, e.Reason = OutcomeLost, "the lease ended and "+e.Host+" reported no outcome"
		}
		if last == nil || e.At().After(last.At()) {
			last = e
		}
	}
	return last
}

func at(rec map[string]string, name string) time.Time {
	ms, _ := strconv.ParseInt(rec[name], 10, 64)
	return instant(ms)
}

func text(list []any, i int) string {
	if i >= len(list) {
		return ""
	}
	s, _ := list[i].(string)
	return s
}

// activePause is the pause that these fields are of, nil unless it holds ticks back now.
func activePause(now time.Time, from, until, who, why string) *Pause {
	h, ok := readPauseFields(from, until, who, why)
	if !ok || !h.Active(now) {
		return nil
	}
	return &h
}

// pauseOf is activePause of the four fields, as they were read.
func pauseOf(read *redis.SliceCmd, now time.Time) *Pause {
	f := read.Val()
	return activePause(now, text(f, 0), text(f, 1), text(f, 2), text(f, 3))
}

// Taken tells which jobs of a table are decided for the ticks of one instant: the bits that
// claims with that Table and Index have set. One small read, however many jobs are due.
func (l *Ledger) Taken(ctx context.Context, table string, tick time.Time) (func(index int) bool, error) {
	get := l.client.Get(ctx, l.keys.taken(table, strconv.FormatInt(tick.Unix(), 10)))
	if err := commandError(get); err != nil {
		return nil, fmt.Errorf("taken: %w", err)
	}
	bits := get.Val()
	return func(i int) bool {
		return i >= 0 && i/8 < len(bits) && bits[i/8]&(0x80>>(i%8)) != 0
	}, nil
}

// Cursor is the newest decided tick of a job; zero: there is none. Err matches locking.ErrConflict
// where the record's key holds another type: then it is not known.
type Cursor struct {
	Tick time.Time
	Err  error
}

// Cursors reads the newest decided tick of each job, in their order and in one pipeline, and Redis'
// clock. A foreign key of one job leaves the others as they are.
func (l *Ledger) Cursors(ctx context.Context, jobs []string) (cursors []Cursor, now time.Time, err error) {
	pipe := l.client.Pipeline()
	clock := l.askTime(ctx, pipe)
	all := make([]*redis.StringCmd, len(jobs))
	for i, job := range jobs {
		all[i] = pipe.HGet(ctx, l.keys.record(job), "tick")
	}
	if err := execEach(ctx, pipe); err != nil {
		return nil, time.Time{}, fmt.Errorf("cursors: %w", err)
	}
	cursors = make([]Cursor, len(jobs))
	for i, c := range all {
		ms, _ := strconv.ParseInt(c.Val(), 10, 64)
		cursors[i] = Cursor{Tick: instant(ms), Err: commandError(c)}
	}
	return cursors, clock(), nil
}
