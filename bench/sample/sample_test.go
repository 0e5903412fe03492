package sample

import (
	"slices"
	"testing"
	"time"
)

func TestInterleave_SidesTakeTurns(t *testing.T) {
	var order []string
	side := func(name string, took time.Duration) Side {
		return func() time.Duration {
			order = append(order, name)
			return took
		}
	}
	got := Interleave(3, side("a", 1), side("b", 2))
	if want := []string{"a", "b", "a", "b", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("Interleave(3, a, b) ran %q, want %q", order, want)
	}
	if len(got) != 2 || !slices.Equal(got[0], []time.Duration{1, 1, 1}) || !slices.Equal(got[1], []time.Duration{2, 2, 2}) {
		t.Errorf("Interleave(3, a, b) = %v, want three timings of 1 ns and three of 2 ns", got)
	}
}

func TestQuantile_IsOneOfTheTimings(t *testing.T) {
	for _, c := range []struct {
		name    string
		timings []time.Duration
		q       float64
		want    time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one", []time.Duration{7}, 0.25, 7},
		{"odd", []time.Duration{9, 1, 5}, 0.5, 5},
		{"lower quartile", []time.Duration{5, 4, 3, 2, 1}, 0.25, 2},
		{"upper quartile", []time.Duration{5, 4, 3, 2, 1}, 0.75, 4},
		{"all", []time.Duration{5, 4, 3}, 1, 5},
		{"one outlier", []time.Duration{2, 2, 2, 2, 1000}, 0.5, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := slices.Clone(c.timings)
			if got := Quantile(c.timings, c.q); got != c.want {
				t.Errorf("Quantile(%v, %g) = %d, want %d", c.timings, c.q, got, c.want)
			}
			if !slices.Equal(before, c.timings) {
				t.Errorf("Quantile changed its timings to %v, want %v", c.timings, before)
			}
		})
	}
}

// A machine that gets slower half-way makes both sides slower: the ratios of the rounds stay.
func TestCompare_SlowHalfChangesNoRatio(t *testing.T) {
	side := []time.Duration{20, 20, 20, 200, 200}
	yardstick := []time.Duration{10, 10, 10, 100, 100}
	if got, want := Compare(side, yardstick), (Ratio{2, 2, 2}); got != want {
		t.Errorf("Compare = %+v, want %+v", got, want)
	}
}
