package cli

import (
	"testing"
	"time"
)

func TestHowGone(t *testing.T) {
	seen := time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		left  time.Duration
		later time.Duration
		want  leaseEnd
	}{
		{"long before its end", 25 * time.Second, 200 * time.Millisecond, released},
		{"right at its end", 200 * time.Millisecond, 200 * time.Millisecond, expired},
		{"not looked at for long", time.Second, 3 * time.Second, expired},
	} {
		if got := howGone(c.left, seen, seen.Add(c.later)); got != c.want {
			t.Errorf("%s: howGone = %v, want %v", c.name, got, c.want)
		}
	}
}
