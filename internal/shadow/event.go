package shadow

import (
	"encoding/json"
	"time"

	"rota/scheduler/ledger"
)

// Event is what became of one tick, as every process of the dry run tells it.
type Event struct {
	What EventWhat
	Tick time.Time
	Job  string // as the ledger has it
	Lock string
	Host string    // that won, found the lock held, found it too late, or held the lease
	At   time.Time // by Redis' clock

	Kind  ledger.Kind   // of a win
	Holds time.Duration // of a win: how long the lease is held

	// Next is the host that came next after the winner, Margin how much later; "": none did. Whoever is
	// behind comes when its turn does, so this is a step of the order or more, if nothing went wrong.
	Next   string
	Margin time.Duration

	Holder, HolderJob string // of skipped and waiting: who held the lock; "": max_parallel runs of the job went on
	Count             int    // of missed: how many ticks, up to this one
	Reason            string // of skipped: if it is not that the lock was held
	Outcome           string // of ended: timed_out, lost, cancelled
}

// EventWhat is what became of a tick.
type EventWhat string

// What can become of a tick.
const (
	EventWon     EventWhat = "won"
	EventSkipped EventWhat = "skipped"
	EventWaiting EventWhat = "waiting" // for its lock
	EventMissed  EventWhat = "missed"
	EventEnded   EventWhat = "ended" // the held lease did not last as long as it should
)

// MarshalJSON writes the event as one object with the names of the docs. It has a value receiver so that
// an Event and a pointer to one look the same.
func (e Event) MarshalJSON() ([]byte, error) {
	type event struct {
		Event     EventWhat   `json:"event"`
		Tick      time.Time   `json:"tick"`
		Job       string      `json:"job"`
		Lock      string      `json:"lock,omitempty"`
		Host      string      `json:"host,omitempty"`
		At        time.Time   `json:"at"`
		Kind      ledger.Kind `json:"kind,omitempty"`
		LagMS     *int64      `json:"lag_ms,omitempty"`
		HoldsMS   *int64      `json:"holds_ms,omitempty"`
		Next      string      `json:"next_host,omitempty"`
		MarginMS  *int64      `json:"margin_ms,omitempty"`
		Holder    string      `json:"holder,omitempty"`
		HolderJob string      `json:"holder_job,omitempty"`
		Count     int         `json:"count,omitempty"`
		Reason    string      `json:"reason,omitempty"`
		Outcome   string      `json:"outcome,omitempty"`
	}
	out := event{
		Event: e.What, Tick: e.Tick.UTC(), Job: e.Job, Lock: e.Lock, Host: e.Host, At: e.At.UTC(), Kind: e.Kind, Next: e.Next,
		Holder: e.Holder, HolderJob: e.HolderJob, Count: e.Count, Reason: e.Reason, Outcome: e.Outcome,
	}
	if e.What == EventWon {
		out.LagMS, out.HoldsMS = new(e.At.Sub(e.Tick).Milliseconds()), new(e.Holds.Milliseconds())
		if e.Next != "" {
			out.MarginMS = new(e.Margin.Milliseconds())
		}
	}
	return json.Marshal(out)
}
