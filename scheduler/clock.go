package scheduler

import (
	"slices"
	"sync"
	"time"

	"rota/locking"
)

// fleetClock estimates Redis' clock, by which the whole fleet keeps time. It runs on this
// host's monotonic clock (and CLOCK_BOOTTIME, over a sleep), not on its wall clock: a step of
// that moves nothing. It never runs ahead of Redis by more than the drift since the last reply.
type fleetClock struct {
	instant func() locking.Instant
	skew    time.Duration // of the wall clock; tests only

	mu    sync.Mutex
	ref   sample
	trips []time.Duration // of the last replies, a ring
	next  int
}

// sample is one reading of Redis' clock. It was taken no later than `got`.
type sample struct {
	got   locking.Instant
	redis time.Time
	trip  time.Duration
}

const (
	tripsKept  = 128
	sampleAge  = 10 * time.Second
	clockJump  = time.Second
	resolution = time.Millisecond // scripts answer in whole milliseconds
)

// observe takes a reply in: it was asked at sent and says that Redis' clock showed redis.
// jumped tells that Redis' clock moved by over a second against this host's.
func (c *fleetClock) observe(sent locking.Instant, redis time.Time) (jumped bool) {
	got := c.instant()
	s := sample{got: got, redis: redis, trip: got.Sub(sent)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.trips) < tripsKept {
		c.trips = append(c.trips, s.trip)
	} else {
		c.trips[c.next] = s.trip
		c.next = (c.next + 1) % tripsKept
	}
	if c.ref.redis.IsZero() {
		c.ref = s
		return false
	}
	// The reading says that Redis' clock is within [redis, redis + trip + 1 ms] now.
	expected := c.ref.redis.Add(got.Sub(c.ref.got))
	early, late := redis.Sub(expected), expected.Sub(redis.Add(s.trip+resolution))
	jumped = late > clockJump || early-c.ref.trip > clockJump
	if jumped || late > 0 || early > 0 || s.trip <= c.ref.trip || got.Sub(c.ref.got) > sampleAge {
		c.ref = s
	}
	return jumped
}

// known tells whether Redis has answered at all.
func (c *fleetClock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ref.redis.IsZero()
}

// Now is Redis' clock, as far as it is known; before the first answer this host's.
func (c *fleetClock) Now() time.Time {
	now := c.instant()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ref.redis.IsZero() {
		return now.Time().Round(0).Add(c.skew).UTC()
	}
	return c.ref.redis.Add(now.Sub(c.ref.got)).UTC()
}

// offset is how far this host's wall clock is ahead of Redis'.
func (c *fleetClock) offset() time.Duration {
	if !c.known() {
		return 0
	}
	return time.Now().Round(0).Add(c.skew).Sub(c.Now())
}

// fromWall takes a reading of this host's wall clock to Redis'.
func (c *fleetClock) fromWall(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Round(0).Add(c.skew - c.offset()).UTC()
}

// p99 is the round trip that 99 of 100 recent calls stayed within; 0 before the first.
func (c *fleetClock) p99() time.Duration {
	c.mu.Lock()
	trips := slices.Clone(c.trips)
	c.mu.Unlock()
	if len(trips) == 0 {
		return 0
	}
	slices.Sort(trips)
	return trips[(len(trips)*99-1)/100]
}
