package sample

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInterleave_SidesTakeTurns(t *testing.T) {
	var order strings.Builder
	side := func(name string, took time.Duration) Side {
		return func() time.Duration {
			order.WriteString(name)
			return took
		}
	}
	const rounds = 20
	got := Interleave(rounds, side("a", 1), side("b", 2))
	for i, want := range []time.Duration{1, 2} {
		if len(got[i]) != rounds || Quantile(got[i], 0) != want || Quantile(got[i], 1) != want {
			t.Errorf("Interleave(%d, a, b)[%d] = %v, want %d times %d ns", rounds, i, got[i], rounds, want)
		}
	}
	if strings.Count(order.String(), "ab") == rounds || strings.Count(order.String(), "ba") == rounds {
		t.Errorf("the sides ran in the order %s, want another one in some rounds", order.String())
	}
	for round := range rounds {
		if pair := order.String()[2*round:][:2]; pair != "ab" && pair != "ba" {
			t.Errorf("round %d ran %q, want each side once", round, pair)
		}
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
