package scheduler

import (
	"testing"
	"time"

	"rota/scheduler/schedule"
)

func TestExpiry(t *testing.T) {
	const day, age = 24 * time.Hour, 14 * 24 * time.Hour
	for _, c := range []struct {
		name, spec, now string
		want            time.Duration
	}{
		{"the history is longer", "* * * * *", "2026-06-01T00:00:00Z", age + day},
		{"twice the gap is longer", "0 0 1 1 *", "2026-06-01T00:00:00Z", 731 * day},
		// Of a rule with uneven gaps it is the one that is running that counts, not the next.
		{"a short gap comes after the one that is running", "0 0 1,2 1 *", "2026-06-01T00:00:00Z", (2*364 + 1) * day},
		{"in the short gap", "0 0 1,2 1 *", "2026-01-01T12:00:00Z", age + day},
		{"at the tick itself a new gap begins", "0 0 1,2 1 *", "2026-01-02T00:00:00Z", (2*364 + 1) * day},
	} {
		rule, err := schedule.Parse("UTC", c.spec)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := Expiry(rule, age, now); got != c.want {
			t.Errorf("%s: Expiry(%s) = %s, want %s", c.name, c.spec, got, c.want)
		}
	}
	if got := Expiry(nil, age, time.Now()); got != age+day {
		t.Errorf("Expiry of no schedule = %s, want that of the history", got)
	}
	// A manual run keeps what it touches no shorter than the job's ticks do.
	j := job(t, "j", "0 0 1 1 *", nil)
	s := &Scheduler{opt: Options{MaxAge: age}}
	asked := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	if got := s.expiry(&j, Due{Job: &j, Tick: asked}); got != 731*day {
		t.Errorf("expiry of a manual run = %s, want 731 days", got)
	}
}
