package scheduler

import (
	"time"

	"rota/scheduler/ledger"
)

// debt is a tick that wants a run at another time than the plan brings it.
type debt struct {
	due   Due
	kind  string // of the claim: ledger.Scheduled or ledger.Misfire
	rerun string // the run that ended with its host, if the tick is to be run again
}

// owed finds the tick that a job owes by its record: one that was given back, one that waits for the
// lock, one whose run ended with its host. Without one, wait is how long the newest run's host need not
// be missed; 0: nothing is to be looked for. It is pure.
func owed(j *Job, index int, st *ledger.Standing) (d debt, wait time.Duration) {
	switch {
	case !st.Open.IsZero():
		return debt{due: dueAt(j, index, st.Open), kind: ledger.Scheduled}, 0
	case !st.Waiting.IsZero():
		return debt{due: dueAt(j, index, st.Waiting), kind: ledger.Scheduled}, 0
	case j.OnCrash != CrashRerun || !st.Again:
		return debt{}, 0
	case st.Crashed:
		return debt{due: dueAt(j, index, st.RunTick), kind: ledger.Scheduled, rerun: st.Run}, 0
	}
	return debt{}, st.Left
}

// none tells that there is no such tick.
func (d *debt) none() bool { return d.due.Job == nil }
