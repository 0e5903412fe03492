package schedule

import (
	"strings"
	"testing"
)

func TestSchedule_Warnings(t *testing.T) {
	for _, c := range []struct{ zone, spec, want string }{
		{"UTC", "0 0 13 * 5", "either may match"},
		{"UTC", "0 9 1-7 * 1", "not the first such weekday"},
		{"UTC", "0 9 1-7 * MON", "write */31,1-7"},
		{"UTC", "0 9 1-7 * 1-5", "day of month 1-7, or day of week 1-5"},
		{"UTC", "0 0 1-7 * */7", "day of week */7 starts with *, so the day of month must match too"},
		{"UTC", "0 0 */2 * 1", "day of month */2 starts with *, so the day of week must match too"},
		{"UTC", "*/7 * * * *", "the step from 56 is 4, not 7"},
		{"UTC", "*/45 * * * *", "the step from 45 is 15, not 45"},
		{"UTC", "0 */5 * * *", "hour */5 starts anew at 0: the step from 20 is 4, not 5"},
		{"UTC", "*/50 * * * * *", "second */50 starts anew"},
		{"UTC", "*/60 * * * *", "matches 0 only"},
		{"UTC", "0 0 */3 * *", "starts anew on the 1st"},
		{"UTC", "* 5 * * *", "runs 60 times"},
		{"UTC", "0 0 31 * *", "no day of month 31 in February, April, June, September, November"},
		{"UTC", "0 0 29 2 *", "no day of month 29 in February of a common year"},
		{"UTC", "0 0 31 2 1", "no day of month 31 in February"},
		{"UTC", "@every 7h", "does not divide a day"},
		{"EST", "0 2 * * *", `"America/New_York"`},
		{"MST", "0 2 * * *", `"America/Denver"`},
		{"Etc/GMT+5", "0 2 * * *", "five hours behind UTC"},
	} {
		got := strings.Join(mustParse(t, c.zone, c.spec).Warnings(), "\n")
		if !strings.Contains(got, c.want) {
			t.Errorf("Warnings of %q in %s: got %q, want %q in it", c.spec, c.zone, got, c.want)
		}
	}
	got := mustParse(t, "UTC", "@daily", "0 2 * * *", "@daily ").Warnings()
	if len(got) != 1 || !strings.Contains(got[0], "more than once") {
		t.Errorf("Warnings of a repeated spec: got %q", got)
	}
	for _, spec := range []string{"0 2 * * *", "*/5 9-17 * * 1-5", "@hourly", "@weekly", "0 0 1 * *", "0 0 * * */2", "@every 1d", "@every 90s", "*/15 * * * * *", "0 0 1,31 * *", "5/15 * * * *"} {
		if got := mustParse(t, "Europe/Berlin", spec).Warnings(); len(got) != 0 {
			t.Errorf("Warnings of %q: got %q, want none", spec, got)
		}
	}
}
