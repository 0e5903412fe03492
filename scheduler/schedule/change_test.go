package schedule

import (
	"testing"
	"time"
)

func TestSchedule_ChangesSayWhatBecomesOfTimes(t *testing.T) {
	const spring, autumn = "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"
	for _, tc := range []struct {
		name, zone, spec, from string
		at, tick               string // "": none
		affected, fixed        bool
	}{
		{"a fixed time in a gap", "America/New_York", "30 2 * * *", "2026-03-08T00:00:00Z", spring, spring, true, true},
		{"a fixed time beside a gap", "America/New_York", "30 4 * * *", "2026-03-08T00:00:00Z", spring, "", false, false},
		{"a wildcard in a gap", "America/New_York", "*/10 * * * *", "2026-03-08T00:00:00Z", spring, "", true, false},
		{"a fixed time in a fold", "America/New_York", "30 1 * * *", "2026-11-01T00:00:00Z", autumn, "2026-11-01T05:30:00Z", true, true},
		{"a wildcard in a fold", "America/New_York", "30 * * * *", "2026-11-01T00:00:00Z", autumn, "", true, false},
		{"the other days of the year", "America/New_York", "30 2 * * *", "2026-06-01T00:00:00Z", "", "", false, false},
		{"the first instant of the window", "America/New_York", "30 2 * * *", spring, spring, spring, true, true},
		{"a zone of its own", "UTC", "CRON_TZ=America/New_York 30 2 * * *", "2026-03-08T00:00:00Z", spring, spring, true, true},
		{"every has no clock", "America/New_York", "@every 90s", "2026-03-08T00:00:00Z", "", "", false, false},
		{"a change of the calendar", "Pacific/Apia", "0 5 * * *", "2011-12-30T00:00:00Z", "", "", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Parse(tc.zone, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			from, _ := time.Parse(time.RFC3339, tc.from)
			got := s.Changes(from, from.Add(24*time.Hour))
			if tc.at == "" {
				if len(got) != 0 {
					t.Fatalf("Changes = %+v, want none", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("Changes = %+v, want one", got)
			}
			c := got[0]
			at, _ := time.Parse(time.RFC3339, tc.at)
			tick, _ := time.Parse(time.RFC3339, tc.tick)
			if !c.At.Equal(at) || !c.Tick.Equal(tick) || (c.Spec != "") != tc.affected || c.Fixed != tc.fixed || c.Zone != "America/New_York" {
				t.Errorf("Changes = %+v, want at %s, tick %q, affected %v, fixed %v", c, tc.at, tc.tick, tc.affected, tc.fixed)
			}
		})
	}
	if got := (*Schedule)(nil).Changes(time.Time{}, time.Now()); got != nil {
		t.Errorf("Changes of a nil schedule = %+v", got)
	}
}
