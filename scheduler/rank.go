package scheduler

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
)

// stepBase is what a host waits for each host that comes before it, beside the round trip.
const stepBase = 25 * time.Millisecond

// lastStep is the rank from which all hosts wait the same, with jitter: when six hosts before
// it have not claimed, the order has lost its meaning.
const lastStep = 6

// rank is a host's place, from 0, in the order in which a fleet claims one tick. Every host
// computes the same order from the same list; the order is another for each tick, so that the
// work spreads. A host that is missing from hosts takes the place it would have.
func rank(job string, tick time.Time, self string, hosts []string) int {
	own := weight(job, tick, self)
	n := 0
	for _, h := range hosts {
		if h == self {
			continue
		}
		if w := weight(job, tick, h); w < own || w == own && h < self {
			n++
		}
	}
	return n
}

func weight(job string, tick time.Time, host string) uint64 {
	var buf [192]byte
	b := append(buf[:0], job...)
	b = append(b, 0)
	b = strconv.AppendInt(b, tick.UnixMilli(), 10)
	b = append(b, 0)
	b = append(b, host...)
	return xxhash.Sum64(b)
}

// turn is how long a host of a rank waits before it claims. step is what one rank is worth.
func turn(rank int, step time.Duration) time.Duration {
	if rank < lastStep {
		return time.Duration(rank) * step
	}
	return lastStep*step + rand.N(step)
}
