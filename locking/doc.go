// Package locking grants leases on named locks that live in Redis, with fencing tokens.
//
// A lease is held by one holder at a time, lasts for a TTL, is renewed while it is held, and
// carries a number, the fencing token, that rises with every grant of its lock, for ever.
// Each request is one Lua script in one round trip.
//
//	        TryAcquire, Acquire                Release, Stop
//	free ────────────────────────▶ held ────────────────────────▶ released
//	                              │    │
//	     Redis says: not yours    │    │  no renewal confirmed
//	                     refused ◀┘    └▶ deadline
//	                            ╲        ╱
//	                              lost
//
// # What it promises
//
// While Redis keeps its data, no two leases of one lock are trusted at the same time by
// holders that stop when their lease's context ends. A lease is trusted until its trust
// deadline: the instant before the last confirmed request was sent, plus the TTL, minus a
// margin. It is judged by the larger of two elapsed times, of the monotonic clock and of
// CLOCK_BOOTTIME, which goes on while a machine sleeps. The timer that ends the context is
// independent of the requests: one that hangs does not delay it.
//
// Fencing tokens rise strictly. They are kept in Redis, and where Redis has lost them its
// clock, in microseconds, takes over: then they rise as long as the clock of the server that
// grants is not behind the last grant. A [Locker] besides never takes a smaller one than it
// has seen.
//
// # What it does not promise
//
// Redis forgets when it is flushed, or fails over to a replica that lags, or evicts; its
// clock can jump ahead; a whole machine can be frozen past its lease. Then two holders can
// believe in their leases at once. What protects data then is the fencing token, if the
// store that is written to refuses a token below the highest it has seen.
//
// # When Redis is away
//
// Acquiring fails with [ErrUnavailable]: no answer, no lease. A lease that is held is tried
// again at short distances, and lost only when its trust deadline passes without a
// confirmed renewal. A grant whose answer was lost is asked for again with the same
// ownership token, which gives the same grant, or is taken back. Errors tell four things
// apart: held by another, Redis not answering, something else at the key, and the caller's
// own context or arguments.
//
// # Parts
//
// A [Locker] acquires and releases. Its [Keeper] renews; whoever is granted leases by a
// script of their own (see [NewScript] and [Prelude]) uses one directly. A [Lease] is one
// grant, used once.
//
// Goroutines: a Keeper has one that plans renewals and at most four that send them; a Locker
// has one for each acquisition under way and for each grant it takes back. Close waits for
// all. Each lease has a timer.
package locking
