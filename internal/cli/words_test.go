package cli

import (
	"testing"
	"time"

	"rota/scheduler/ledger"
)

// noon is a Sunday.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestWords_Since(t *testing.T) {
	for _, tc := range []struct {
		name string
		t    time.Duration // from noon
		want string
	}{
		{"this instant", 0, "now"},
		{"less than a second ahead", 999 * time.Millisecond, "now"},
		{"a second ahead", time.Second, "in 1s"},
		{"seconds ahead", 119 * time.Second, "in 119s"},
		{"minutes ahead", 119 * time.Minute, "in 119m"},
		{"hours ahead", 47 * time.Hour, "in 47h"},
		{"days ahead", 48 * time.Hour, "in 2d"},
		{"seconds ago", -12 * time.Second, "12s ago"},
		{"minutes ago", -3 * time.Minute, "3m ago"},
		{"years ago", -10 * 365 * 24 * time.Hour, "3650d ago"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := since(noon.Add(tc.t), noon); got != tc.want {
				t.Errorf("since(noon%+v, noon) = %q, want %q", tc.t, got, tc.want)
			}
		})
	}
}

func TestWords_ClockSaysNoMoreThanIsNeeded(t *testing.T) {
	for _, tc := range []struct{ name, t, want string }{
		{"today, on the minute", "2026-11-29T14:03:00Z", "14:03Z"},
		{"today, with seconds", "2026-11-29T14:03:07Z", "14:03:07Z"},
		{"tomorrow", "2026-11-30T02:00:00Z", "Mon 02:00Z"},
		{"within the week", "2026-12-05T11:59:00Z", "Sat 11:59Z"},
		{"in a week, whose weekday says nothing", "2026-12-06T12:00:00Z", "2026-12-06 12:00Z"},
		{"this day of another year", "2027-11-29T12:00:00Z", "2027-11-29 12:00Z"},
		{"yesterday", "2026-11-28T23:59:59Z", "Sat 23:59:59Z"},
		{"in another zone", "2026-11-29T16:03:00+02:00", "14:03Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			at, err := time.Parse(time.RFC3339, tc.t)
			if err != nil {
				t.Fatal(err)
			}
			if got := clock(at, noon); got != tc.want {
				t.Errorf("clock(%s, noon) = %q, want %q", tc.t, got, tc.want)
			}
		})
	}
}

func TestWords_Size(t *testing.T) {
	for bytes, want := range map[int64]string{
		1: "0.0KiB", 1024: "1.0KiB", 10 << 10: "10KiB", 1000 << 10: "1000KiB", 1536 << 10: "1.5MiB",
		512 << 20: "512MiB", 3 << 29: "1.5GiB", 4 << 40: "4096GiB",
	} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestWords_Took(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0ms",
		4 * time.Millisecond:                  "4ms",
		999*time.Millisecond + 1:              "999ms",
		1234 * time.Millisecond:               "1.23s",
		12345 * time.Millisecond:              "12.3s",
		3*time.Minute + 10*time.Second + 1234: "3m10s",
		26 * time.Hour:                        "26h0m0s",
	} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
	if got, want := offset(-1200*time.Millisecond), "-1.2s"; got != want {
		t.Errorf("offset(-1.2s) = %q, want %q", got, want)
	}
	if got, want := offset(3*time.Millisecond), "+3ms"; got != want {
		t.Errorf("offset(3ms) = %q, want %q", got, want)
	}
}

func TestWords_ReasonOf(t *testing.T) {
	until := noon.Add(-time.Minute)
	for _, tc := range []struct {
		name string
		e    ledger.Entry
		want string
	}{
		{"a run in time needs none", ledger.Entry{Kind: ledger.Scheduled, Run: "r"}, ""},
		{"a failure", ledger.Entry{Kind: ledger.Scheduled, Run: "r", Reason: "exit code 3"}, "exit code 3"},
		{"another kind", ledger.Entry{Kind: ledger.Manual, Run: "r"}, "manual"},
		{"somebody asked for it", ledger.Entry{Kind: ledger.Manual, Run: "r", Who: "ada@web-1"}, "manual by ada@web-1"},
		{
			"somebody asked in vain",
			ledger.Entry{Kind: ledger.Manual, Who: "ada@web-1", Reason: "paused by bob: upgrade"},
			"manual by ada@web-1: paused by bob: upgrade",
		},
		{"another kind that failed", ledger.Entry{Kind: ledger.Rerun, Run: "r", Reason: "exit code 3"}, "rerun: exit code 3"},
		{"one tick", ledger.Entry{Kind: ledger.Scheduled, Reason: "paused"}, "paused"},
		{
			"a range",
			ledger.Entry{Kind: ledger.Scheduled, Count: 4, Until: until, Reason: "no host claimed it in time"},
			"4 ticks until 11:59Z: no host claimed it in time",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := reasonOf(&tc.e, noon); got != tc.want {
				t.Errorf("reasonOf(%+v) = %q, want %q", tc.e, got, tc.want)
			}
		})
	}
}
