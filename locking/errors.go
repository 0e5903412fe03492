package locking

import (
	"errors"
	"fmt"
	"time"
)

// The errors of this package, to be told apart with [errors.Is]. An error that matches none
// of them is the caller's context, or an answer of Redis that asking again will not change
// (no permission, a wrong password, keys in different slots).
var (
	// ErrHeld says that somebody else holds the lock. [HeldError] says who.
	ErrHeld = errors.New("locking: held by another")
	// ErrConflict says that a key of the lock holds something this library did not write: a
	// value of another shape or type, one without expiry, or a fencing token at its end.
	// Nothing was changed, and nothing will be until somebody removes it.
	ErrConflict = errors.New("locking: key holds something that is no lease")
	// ErrUnavailable says that Redis could not be asked or did not answer as it should: the
	// network, a restart, a failover, no memory. Asking again may help.
	ErrUnavailable = errors.New("locking: redis is unavailable")
	// ErrTooOld says that the server does not know a command, or a form of one, that it was sent.
	// Scripts that use the prelude alone need Redis 5.0, Rota's own 6.2. Asking again is no use.
	ErrTooOld = errors.New("locking: redis does not know what it was asked; 6.2 or newer is needed")
	// ErrNotReplicated says that too few replicas confirmed a grant in time, or that this is not known
	// ([Options].WaitReplicas). It comes with ErrUnavailable, and the grant was given back.
	ErrNotReplicated = errors.New("locking: too few replicas have the grant")
	// ErrLost says that a lease ended without being released. [LossError] says how.
	ErrLost = errors.New("locking: lease lost")
	// ErrMaxHold is why the context of a lease ends that was held for its MaxHold.
	ErrMaxHold = errors.New("locking: held for the longest time allowed")
	// ErrReleased is why the context of a lease ends that was released or stopped.
	ErrReleased = errors.New("locking: lease released")
	// ErrClosed says that the Locker or the Keeper has been closed.
	ErrClosed = errors.New("locking: closed")
	// ErrInvalidName says that a name cannot name a lock. Redis was not asked.
	ErrInvalidName = errors.New("locking: invalid name")
	// ErrInvalidOptions says that a constructor refused its options. Each fault is one
	// error of the joined whole.
	ErrInvalidOptions = errors.New("locking: invalid options")
)

// HeldError says who holds a lock, as the server saw it when it was asked. It matches
// [ErrHeld].
type HeldError struct {
	Name         string
	Holder       string        // [Options].Holder of the one who holds it
	FencingToken int64         // of the lease that is held
	Remaining    time.Duration // until the lease ends by itself if it is not renewed
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("locking: %q is held by %q for another %s (fencing token %d)",
		e.Name, e.Holder, e.Remaining, e.FencingToken)
}

// Is tells that a HeldError is an [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Reason is how a lease was lost.
type Reason string

// The reasons of a [LossError].
const (
	// ReasonRefused: Redis said that the lock is free or somebody else's. Definite.
	ReasonRefused Reason = "refused"
	// ReasonDeadline: no renewal was confirmed before the trust deadline passed.
	ReasonDeadline Reason = "deadline"
	// ReasonFailing: renewals fail, and the holder was told ahead of the trust deadline
	// ([KeeperOptions].Notice, FailFast). The lease may still be kept while it winds up.
	ReasonFailing Reason = "failing"
	// ReasonPanicked: the renewal function panicked.
	ReasonPanicked Reason = "panicked"
	// ReasonMaxHold: it was held for its MaxHold, and is not renewed any more. It can be trusted
	// for what is left of it; Err is [ErrMaxHold].
	ReasonMaxHold Reason = "max hold"
	// ReasonClosed: the Keeper or Locker was closed under the lease. Nobody renews it now; the
	// LossError matches [ErrClosed] too.
	ReasonClosed Reason = "closed"
)

// LossError says how a lease was lost. It matches [ErrLost], and whatever Err matches.
type LossError struct {
	Name   string
	Reason Reason
	Err    error // the last failure of a renewal, or ErrClosed; nil if there was none
}

func (e *LossError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("locking: lease on %q lost: %s", e.Name, e.Reason)
	}
	return fmt.Sprintf("locking: lease on %q lost: %s: %v", e.Name, e.Reason, e.Err)
}

// Is tells that a LossError is an [ErrLost].
func (e *LossError) Is(target error) bool { return target == ErrLost }

// Unwrap returns Err.
func (e *LossError) Unwrap() error { return e.Err }
