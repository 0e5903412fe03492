package scheduler

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"rota/scheduler/ledger"
)

// debt is a tick that wants a run at another time than the plan brings it.
type debt struct {
	due   Due
	kind  ledger.Kind // of the claim: ledger.Scheduled or ledger.Misfire
	rerun string      // the run that ended with its host, if the tick is to be run again
	late  bool        // it, or one before it, is caught up
}

// none tells that there is no such tick.
func (d *debt) none() bool { return d.due.Job == nil }

// kindOf tells debts of a job apart that follow each other. All that is caught up is one.
func (d *debt) kindOf() string {
	switch {
	case d.rerun != "":
		return "crash of " + d.rerun
	case d.late:
		return "late"
	}
	return d.due.Tick.String()
}

// owed finds the tick that a job owes at an instant, by its record: one that was given back, one that
// waits for the lock, one whose run ended with its host, one that is to be caught up. base is the
// newest tick that is decided or not due. Without such a tick, wait is when to look again, because the
// newest run's host is to be missed by then; 0: there is no need.
// It is pure.
func owed(j *Job, index int, st *ledger.Standing, base, now time.Time) (d debt, wait time.Duration) {
	again := j.OnCrash == CrashRerun && st.Again
	switch {
	case !st.Open.IsZero():
		return givenBack(j, index, st.Open, now), 0
	case !st.Waiting.IsZero():
		return debt{due: dueAt(j, index, st.Waiting), kind: ledger.Scheduled}, 0
	case again && st.Crashed:
		return debt{due: dueAt(j, index, st.RunTick), kind: ledger.Scheduled, rerun: st.Run}, 0
	}
	switch d := misfired(j, index, base, now); {
	case d.none():
	case st.Left > 0 && j.Overlap != OverlapAllow:
		return debt{}, st.Left // the host of the run before goes on with it, unless it dies
	default:
		return d, 0
	}
	if again {
		return debt{}, st.Left
	}
	return debt{}, 0
}

// givenBack is the claim for a tick that was won and given back. One that is too late for any policy
// is left to the next tick's claim, which says so.
func givenBack(j *Job, index int, tick, now time.Time) debt {
	due := dueAt(j, index, tick)
	if !now.After(due.Deadline) || !catchesUp(j) {
		return debt{due: due, kind: ledger.Scheduled}
	}
	d := caughtUp(j, due)
	if end := d.due.Deadline; !end.IsZero() && now.After(end) {
		return debt{}
	}
	return d
}

// misfired is the newest tick of a job, if that, or under "all" perhaps one before it, is to be caught
// up: the claim for it says which is the oldest. Under "all" it is one in time too, for its race may have
// found that others must go first.
func misfired(j *Job, index int, base, now time.Time) debt {
	if !catchesUp(j) {
		return debt{}
	}
	n, ok := newest(j, index, now)
	switch {
	case !ok || !n.Tick.After(base):
		return debt{}
	case now.After(n.Deadline):
		return caughtUp(j, n)
	case j.Misfire == MisfireAll:
		return debt{due: n, kind: ledger.Scheduled, late: true}
	}
	return debt{}
}

// caughtUp is the claim for a tick whose start deadline has passed. "once" runs it until the next tick
// starts, "all" whenever its turn comes.
func caughtUp(j *Job, due Due) debt {
	due.Deadline = time.Time{}
	if j.Misfire == MisfireOnce && !due.Next.IsZero() {
		due.Deadline = due.Next.Add(j.Delay())
	}
	return debt{due: due, kind: ledger.Misfire, late: true}
}

// oldest is the claim for the tick that must go before the one claimed: the first after what is
// decided, but none before back.
func oldest(j *Job, index int, decided, back, now time.Time) (debt, bool) {
	tick, ok := j.Schedule.Next(decided)
	if !ok {
		return debt{}, false
	}
	due := dueAt(j, index, later(tick, back))
	if now.After(due.Deadline) {
		return caughtUp(j, due), true
	}
	return debt{due: due, kind: ledger.Scheduled, late: true}, true
}

// catchesUp tells whether a job runs ticks past their start deadlines.
func catchesUp(j *Job) bool { return j.Misfire == MisfireOnce || j.Misfire == MisfireAll }

// MostCaughtUp is how many ticks "all" runs at most, the newest due one included.
const MostCaughtUp = 100

// backOf is the oldest tick that "all" would still run when the newest due one is that.
func backOf(j *Job, newest time.Time) time.Time {
	tick := newest
	for range MostCaughtUp - 1 {
		prev, ok := j.Schedule.Prev(tick)
		if !ok {
			break
		}
		tick = prev
	}
	return tick
}

// Spread is how long after it was found that a job catches up: a hash of the name, so that a fleet
// that was away does not begin with everything at once. It is below min(60 s, gap/2), and leaves
// "once" half of the time until the next tick. until is how long that is off; 0: there is none.
func Spread(name string, gap, until time.Duration) time.Duration {
	bound := time.Minute
	if gap > 0 {
		bound = min(bound, gap/2)
	}
	if until > 0 {
		bound = min(bound, until/2)
	}
	return time.Duration(float64(bound) * (float64(xxhash.Sum64String(name)>>11) / (1 << 53)))
}
