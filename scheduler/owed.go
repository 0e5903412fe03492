package scheduler

import "rota/scheduler/ledger"

// debt is a tick that wants a run at another time than the plan brings it.
type debt struct {
	due  Due
	kind string // of the claim: ledger.Scheduled or ledger.Misfire
}

// owed finds the tick that a job owes by its record: one that was given back, or one that waits
// for the lock. ok is false if there is none. It is pure.
func owed(j *Job, index int, st *ledger.Standing) (d debt, ok bool) {
	switch {
	case !st.Open.IsZero():
		return debt{dueAt(j, index, st.Open), ledger.Scheduled}, true
	case !st.Waiting.IsZero():
		return debt{dueAt(j, index, st.Waiting), ledger.Scheduled}, true
	}
	return debt{}, false
}
