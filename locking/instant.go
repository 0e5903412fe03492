package locking

import "time"

// Instant is one reading of the three clocks by which leases are judged, taken together.
//
// Go's monotonic clock is CLOCK_MONOTONIC, which stops while a machine sleeps, so a lease
// judged by it alone would outlive its key by the length of the sleep (golang/go#24595).
// CLOCK_BOOTTIME goes on. Neither may see that a virtual machine was frozen; then the wall
// clock, once it is corrected, is the only trace.
//
// Take one with [Keeper.Now] before a request is sent: what the request grants runs from
// there. The zero Instant lies before all others.
type Instant struct {
	mono time.Time // with its monotonic reading
	wall time.Time // without
	boot time.Duration
}

func readInstant(boottime func() time.Duration) Instant {
	now := time.Now()
	return Instant{mono: now, wall: now.Round(0), boot: boottime()}
}

// IsZero tells that no clock was read.
func (i Instant) IsZero() bool { return i.mono.IsZero() }

// Time returns the instant as a time of the monotonic clock.
func (i Instant) Time() time.Time { return i.mono }

// Boottime returns the instant as a reading of CLOCK_BOOTTIME, or of [KeeperOptions].Boottime: for
// other processes of the machine, which share that clock and no other that goes on while it sleeps.
func (i Instant) Boottime() time.Duration { return i.boot }

// Add returns the instant that all clocks show d later.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{mono: i.mono.Add(d), wall: i.wall.Add(d), boot: i.boot + d}
}

// Sub returns how long i is after earlier: the larger of what the monotonic clock and
// CLOCK_BOOTTIME say, because a clock can stop but not run ahead.
func (i Instant) Sub(earlier Instant) time.Duration {
	return max(i.mono.Sub(earlier.mono), i.boot-earlier.boot)
}

// WallAhead returns by how much the wall clock went further than both other clocks since
// earlier. It is negative if it was set back.
func (i Instant) WallAhead(earlier Instant) time.Duration {
	return i.wall.Sub(earlier.wall) - i.Sub(earlier)
}

// slept returns by how much CLOCK_BOOTTIME went further than the clock of Go's timers.
func (i Instant) slept(earlier Instant) time.Duration {
	return i.boot - earlier.boot - i.mono.Sub(earlier.mono)
}
