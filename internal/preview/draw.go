package preview

import (
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
)

// dice draws what is not known beforehand. What is drawn follows from the seed and from what it is drawn
// for, not from what was drawn before: a change to one job of a table leaves the luck of the others as it
// was, so that two replays differ by the change alone.
type dice struct {
	seed    uint64
	latency [1024]int64 // quantiles, of a whole round trip
	skew    int64
}

func newDice(opt *Options) *dice {
	d := &dice{seed: mix(opt.Seed + 0x9e3779b97f4a7c15), skew: int64(opt.Skew)}
	if opt.Latency.Median <= 0 {
		return d
	}
	const z99 = 2.3263478740408408 // of the normal distribution
	sigma := math.Log(float64(opt.Latency.P99)/float64(opt.Latency.Median)) / z99
	for i := range d.latency {
		p := (float64(i) + 0.5) / float64(len(d.latency))
		z := math.Sqrt2 * math.Erfinv(2*p-1)
		d.latency[i] = int64(float64(opt.Latency.Median) * math.Exp(sigma*z))
	}
	return d
}

// luck is a source of draws for one thing.
type luck struct {
	d     *dice
	state uint64
}

func (d *dice) of(e *entry, tick int64, salt uint64) luck {
	return luck{d, mix(d.seed ^ e.hash ^ mix(uint64(tick)^salt<<48))}
}

func (l *luck) next() uint64 {
	l.state += 0x9e3779b97f4a7c15
	return mix(l.state)
}

// trip is the time of a round trip.
func (l *luck) trip() int64 { return l.d.latency[l.next()%uint64(len(l.d.latency))] }

// skew is how far a host's idea of the clock is behind.
func (l *luck) skew() int64 {
	if l.d.skew == 0 {
		return 0
	}
	return int64(l.next()%uint64(2*l.d.skew+1)) - l.d.skew
}

func (l *luck) jitter() float64 { return float64(l.next()>>11) / (1 << 53) }

// below is a number from 0 to n-1.
func (l *luck) below(n int) int { return int(l.next() % uint64(n)) }

func (l *luck) of(durations []time.Duration) int64 {
	switch len(durations) {
	case 0:
		return 0
	case 1:
		return int64(durations[0])
	}
	return int64(durations[l.below(len(durations))])
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashOf(name string) uint64 { return xxhash.Sum64String(name) }
