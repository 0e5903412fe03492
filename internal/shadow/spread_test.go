package shadow

import (
	"testing"
	"time"
)

func TestSpread_Percentiles(t *testing.T) {
	var s spread
	if got := s.p(50); got != 0 {
		t.Errorf("p(50) of nothing = %s, want 0", got)
	}
	for i := range 1000 {
		s.add(time.Duration(i+1) * time.Millisecond)
	}
	for percent, want := range map[int]time.Duration{50: 500 * time.Millisecond, 99: 990 * time.Millisecond, 100: time.Second, 1: 10 * time.Millisecond} {
		if got := s.p(percent); got != want {
			t.Errorf("p(%d) of 1 ms … 1 s = %s, want %s", percent, got, want)
		}
	}
	for i := range 1_000_000 {
		s.add(time.Duration(i) * 7 * time.Microsecond)
	}
	if len(s.much) > 9*900 {
		t.Errorf("a million lengths are kept as %d, want a few thousand at most", len(s.much))
	}
	for us, want := range map[int64]int64{0: 0, 999: 999, 1000: 1000, 1009: 1000, 123456: 123000} {
		if got := threeDigits(us); got != want {
			t.Errorf("threeDigits(%d) = %d, want %d", us, got, want)
		}
	}
}
