package locking

import "time"

// EventKind is what happened to a lease.
type EventKind string

// The kinds of an [Event].
const (
	EventAcquired EventKind = "acquired"
	EventRenewed  EventKind = "renewed"  // Left is what the renewal left to go before
	EventRetried  EventKind = "retried"  // a renewal failed and will be tried again; Err says why
	EventLost     EventKind = "lost"     // exactly once a lease, or never; Err is the [*LossError]
	EventReleased EventKind = "released" // by Release or Stop
)

// Event is one thing that happened to a lease, for metrics and tests.
type Event struct {
	Kind         EventKind
	Name         string
	FencingToken int64
	Left         time.Duration // of what was trusted at that moment
	Err          error
}
