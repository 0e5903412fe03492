package shadow

import (
	"maps"
	"slices"
	"time"
)

// spread is how a length of time is distributed, to three digits, in memory that does not grow with
// how often it was measured. The zero value is empty.
type spread struct {
	n    int
	much map[int64]int // by µs, rounded down to three digits
}

func (s *spread) add(d time.Duration) {
	if s.much == nil {
		s.much = map[int64]int{}
	}
	s.n++
	s.much[threeDigits(max(0, d.Microseconds()))]++
}

func threeDigits(us int64) int64 {
	unit := int64(1)
	for us/unit >= 1000 {
		unit *= 10
	}
	return us / unit * unit
}

// p is the length that so many of a hundred stay within; 0 if there is none.
func (s *spread) p(percent int) time.Duration {
	rank := (s.n*percent + 99) / 100
	for _, us := range slices.Sorted(maps.Keys(s.much)) {
		if rank -= s.much[us]; rank <= 0 {
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}
