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
	return xxhash.Sum64(append(weighed(buf[:0], job, tick), host...))
}

// weighed is what the weights of all hosts for one tick have in common.
func weighed(b []byte, job string, tick time.Time) []byte {
	b = append(b, job...)
	b = append(b, 0)
	b = strconv.AppendInt(b, tick.UnixMilli(), 10)
	return append(b, 0)
}

// Weights appends the weight that each host has for one tick to dst, for whoever replays a race: a fleet
// claims in the order of the weights, the smallest first, of two that are equal in that of the names. job
// is its name as the hosts have it; see [Job.On].
func Weights(dst []uint64, job string, tick time.Time, hosts []string) []uint64 {
	var buf [192]byte
	b := weighed(buf[:0], job, tick)
	n := len(b)
	for _, h := range hosts {
		b = append(b[:n], h...)
		dst = append(dst, xxhash.Sum64(b))
	}
	return dst
}

// LastRank is the rank from which on all hosts wait as long, but for jitter.
const LastRank = lastStep

// Step is what one rank is worth when 99 of 100 calls to Redis stay within p99.
func Step(p99 time.Duration) time.Duration { return stepBase + p99 }

// Turn is how long a host of a rank waits before it claims. step is what one rank is worth, and jitter,
// from 0 to below 1, what LastRank and those after it add of one.
func Turn(rank int, step time.Duration, jitter float64) time.Duration {
	if rank < lastStep {
		return time.Duration(rank) * step
	}
	return lastStep*step + time.Duration(float64(step)*jitter)
}

func turn(rank int, step time.Duration) time.Duration { return Turn(rank, step, rand.Float64()) }
