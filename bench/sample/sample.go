// Package sample takes timings that can be compared although the machine is noisy.
//
// Two things that are measured one after the other meet two different machines: a clock that
// went down, a neighbour that woke up. So they take turns, and what is told is their ratio. The
// median keeps the rounds that something interrupted out of it; the quartiles say how many of
// those there were.
package sample

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A Side is one of the things that are compared. It does its work once and returns how long the
// part took that counts; what it must prepare or tidy up is not in that.
type Side func() time.Duration

// Timed makes a Side of work that counts as a whole.
func Timed(work func()) Side {
	return func() time.Duration {
		began := time.Now()
		work()
		return time.Since(began)
	}
}

// Interleave lets the sides take turns, `rounds` times each, and returns the timings of each side
// in the order of the rounds. Within a round the order is another each time, by a fixed seed: what
// ran just before decides what is in the caches and how deep a processor sleeps, and a side that
// always follows the same one would be measured together with it.
func Interleave(rounds int, sides ...Side) [][]time.Duration {
	out := make([][]time.Duration, len(sides))
	shuffled := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		for _, i := range shuffled.Perm(len(sides)) {
			out[i] = append(out[i], sides[i]())
		}
	}
	return out
}

// Quantile returns the value that the share q of the timings stays within, 0 ≤ q ≤ 1; 0 without
// timings. It is always one of them: nothing is interpolated.
func Quantile[T time.Duration | float64](timings []T, q float64) T {
	if len(timings) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(timings))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// Median is the Quantile of one half.
func Median(timings []time.Duration) time.Duration { return Quantile(timings, 0.5) }

// Ratio is how many times longer one side took than another.
type Ratio struct {
	Of       float64 // of the two medians
	Low, Top float64 // the quartiles of the ratios of the single rounds
}

// Compare divides the timings of one side by those of another from the same rounds. It panics if
// they are not as many.
func Compare(side, yardstick []time.Duration) Ratio {
	if len(side) != len(yardstick) {
		panic("sample: the sides have different numbers of rounds")
	}
	rounds := make([]float64, len(side))
	for i := range side {
		rounds[i] = float64(side[i]) / float64(yardstick[i])
	}
	return Ratio{
		Of:  float64(Median(side)) / float64(Median(yardstick)),
		Low: Quantile(rounds, 0.25),
		Top: Quantile(rounds, 0.75),
	}
}

// Report makes the ratio a result of the benchmark, with the quartiles under the unit's name and
// a suffix. It takes the place of ns/op: how long all rounds took together tells nothing.
func (r Ratio) Report(b *testing.B, unit string) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.Of, unit)
	b.ReportMetric(r.Low, unit+"-q1")
	b.ReportMetric(r.Top, unit+"-q3")
}

// Micros is a duration in microseconds, as benchmarks report it.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Millis is a duration in milliseconds, as benchmarks report it.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
