package schedule

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSchedule_MinGap(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		zone  string
		specs []string
		want  time.Duration
	}{
		{"UTC", []string{"0 2 * * *"}, day},
		{"UTC", []string{"* * * * * *"}, time.Second},
		{"UTC", []string{"*/7 * * * *"}, 4 * time.Minute},
		{"UTC", []string{"*/7 3 * * *"}, 7 * time.Minute},
		{"UTC", []string{"50,10 * * * *"}, 20 * time.Minute},
		{"UTC", []string{"@every 7h"}, 7 * time.Hour},
		{"UTC", []string{"@weekly"}, 7 * day},
		{"UTC", []string{"@monthly"}, 28 * day},
		{"UTC", []string{"@yearly"}, 365 * day},
		{"UTC", []string{"0 0 29 2 *"}, 1461 * day},
		{"UTC", []string{"0 0 29 2 */7"}, (28*365 + 7) * day},
		{"UTC", []string{"0 3 28,29 2 *"}, day},
		{"America/New_York", []string{"0 2 * * *"}, 23 * time.Hour},
		{"America/New_York", []string{"0 2,3 * * *"}, time.Hour},
		{"America/New_York", []string{"15 2,3 * * *"}, 15 * time.Minute}, // 02:15 is made up for at 03:00
		{"America/New_York", []string{"0 */4 * * *"}, 3 * time.Hour},
		{"America/New_York", []string{"59 59 1,3 * * *"}, time.Hour},
		{"America/New_York", []string{"59 59 1,2 * * *"}, time.Second}, // 02:59:59 is made up for at 03:00:00
		{"Australia/Lord_Howe", []string{"45 * * * *"}, 30 * time.Minute},
		{"Europe/Berlin", []string{"0 2 * * 1-5", "0 6 * * 0,6"}, 4 * time.Hour},
		{"Europe/Berlin", []string{"0 2 * * *", "30 2 * * *"}, 30 * time.Minute},
		{"Europe/Berlin", []string{"30 2 * * *", "30 3 * * *"}, 30 * time.Minute}, // 02:30 is made up for at 03:00
		{"UTC", []string{"0 2 * * *", "0 2 * * 1"}, day},
		{"UTC", []string{"@every 1h", "30 2 * * *"}, 30 * time.Minute},
		{"UTC", []string{"@every 7h", "30 2 * * *"}, 30 * time.Minute},
		{"UTC", []string{"@every 7h", "@every 5h"}, time.Hour},
		{"UTC", []string{"TZ=Asia/Tokyo 0 9 * * *", "0 1 * * *"}, time.Hour},
		{"UTC", []string{"TZ=Asia/Tokyo 0 9 * * *", "0 0 * * *"}, day},
	} {
		if got := mustParse(t, c.zone, c.specs...).MinGap(); got != c.want {
			t.Errorf("MinGap of %q in %s: got %s, want %s", c.specs, c.zone, got, c.want)
		}
	}
}

// No two ticks may be nearer than MinGap; for one spec some must be as near.
func TestSchedule_MinGapIsSound(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	from := time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(30, 0, 0)
	for range 150 {
		s := randomSchedule(t, random)
		bound, smallest := s.MinGap(), until.Sub(from)
		check := func(after time.Time, n int) {
			var previous time.Time
			for tick := range s.All(after) {
				if n--; n < 0 || tick.After(until) {
					return
				}
				if gap := tick.Sub(previous); !previous.IsZero() && gap < smallest {
					smallest = gap
				}
				previous = tick
			}
		}
		check(from, 20_000)
		for i := range s.rules {
			for _, p := range s.rules[i].zone.known[1:] {
				check(time.Unix(p.start, 0).Add(-30*time.Hour), 200)
			}
		}
		if smallest < bound {
			t.Errorf("%s: MinGap is %s, and two ticks are %s apart", s, bound, smallest)
		}
		if len(s.rules) == 1 && smallest > bound && s.rules[0].every == 0 && bound < 24*time.Hour {
			t.Errorf("%s: MinGap is %s, and the nearest ticks are %s apart", s, bound, smallest)
		}
	}
}
