package locking

import (
	"math"
	"time"
)

// Grant is a lease that Redis has confirmed: what a script answered, and what was sent to
// ask for it. [Keeper.Keep] makes a [Lease] of it.
type Grant struct {
	Name  string // of the lock, for logs and errors
	Token Token  // the ownership token the lease was granted to
	Fence int64  // the fencing token

	// TTL is the lease's length, the same as in the script's reply and in every renewal.
	TTL time.Duration

	// Sent was read before the request was sent: the lease is counted from there, because
	// when Redis handled the request is not known, only that it was later.
	Sent Instant

	// MaxHold is how long after Sent the lease is renewed at most; 0: no bound.
	MaxHold time.Duration

	// Margin is cut off the TTL to get the trust deadline. 0, and whatever is smaller than
	// the least margin, is the least margin: 2 ms and 1 % of the TTL, for clocks that do not
	// run equally fast and for keys that expire on whole milliseconds.
	Margin time.Duration
}

// leastMargin is the drift allowance of the Redlock page (Redis documentation, "Distributed
// locks with Redis"): 1 % of the TTL, and 2 ms for the resolution of expiry.
func leastMargin(ttl time.Duration) time.Duration {
	return 2*time.Millisecond + ttl/100
}

// trusted returns how long after Sent the lease may be trusted. Parts of a millisecond do
// not count, as they would not on a server that was told one less.
func (g *Grant) trusted() time.Duration {
	return g.TTL.Truncate(time.Millisecond) - max(g.Margin, leastMargin(g.TTL))
}

// Millis is a duration in whole milliseconds, as Redis takes it, rounded up: what is above 0
// does not become 0, which has a meaning of its own in commands and scripts. The longest
// Duration is rounded down: what no Duration holds, a server written in Go takes for the past.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
		ms++
	}
	return ms
}

// wireMillis is Millis for PEXPIRE and SET PX, never below 1: "PEXPIRE key 0" deletes the key
// and answers 1, which would read as renewed.
func wireMillis(d time.Duration) int64 { return max(1, Millis(d)) }

// renewEvery returns the default distance of renewals: three fit into what is trusted.
func renewEvery(trusted time.Duration) time.Duration { return trusted / 3 }
