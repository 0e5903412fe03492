package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"rota/internal/shadow"
)

// Whatever the names are, on a terminal of 80 columns nothing wraps, and what goes to a file is whole.
func TestDryText_FitsTheTerminal(t *testing.T) {
	long, host := strings.Repeat("nightly-report-", 4), strings.Repeat("frankfurt-", 5)+"50"
	tick := time.Date(2026, 11, 30, 7, 39, 10, 0, time.UTC)
	events := []shadow.Event{
		{What: shadow.EventWon, Job: long, Host: host, Tick: tick, Next: host, Margin: 123 * time.Millisecond, Holds: 61 * time.Minute, Kind: "misfire"},
		{What: shadow.EventWon, Job: "a", Host: "b", Tick: tick, Kind: "scheduled"},
		{What: shadow.EventSkipped, Job: long, Host: host, Tick: tick, Holder: host, HolderJob: long + "x"},
		{What: shadow.EventWaiting, Job: "a", Host: host, Tick: tick, Holder: "b", HolderJob: "a"},
		{What: shadow.EventSkipped, Job: "a", Tick: tick, Reason: "a newer tick took its place"},
		{What: shadow.EventSkipped, Job: "a", Tick: tick, HolderJob: "a"},
		{What: shadow.EventMissed, Job: "a", Tick: tick, Count: 3},
		{What: shadow.EventEnded, Job: "a", Host: host, Tick: tick, Outcome: "timed_out"},
	}
	margin, offset := 123.4, int64(-120000)
	r := &shadow.Report{
		Ticks: 100000, LastedMS: 3600_000,
		Jobs: []shadow.JobReport{
			{
				Name: long, Lock: long, Ticks: 100000, Won: 90000, Held: 10000, Skipped: 10000, Missed: 10, MarginP50MS: &margin,
				HoldsMS: 3661_000, HoldsFrom: shadow.FromLedger, Runs: 30, Enabled: true,
				HeldBy: []shadow.HeldBy{{Job: long + "x", Host: host, Ticks: 5000}, {Job: long + "x", Host: "b", Ticks: 5000}},
			},
			{Name: "each@b", Ticks: 2, Won: 2, Enabled: true},
			{Name: "each@" + host, Ticks: 3, Won: 2, Missed: 1, Enabled: true},
		},
		Locks: []shadow.LockReport{{Name: long, Jobs: []string{long}, Contention: []shadow.Contention{{Job: long, Holder: long + "x", Ticks: 10000}}}},
		Hosts: []shadow.HostReport{{Name: host, Wins: 90000, Share: 1, Claims: shadow.Latency{Count: 100000, P50MS: 123, P99MS: 4567}, ClockOffsetMS: &offset}},
	}
	r.Claims = shadow.Latency{Count: 1, P50MS: 1234, P99MS: 12345}
	r.Commands = shadow.Commands{PeakPerS: 123456, PeakAt: &tick, MeanPerS: 12345.678}
	for _, width := range []int{80, 0} {
		var b bytes.Buffer
		d := &dryText{w: &b, width: width, names: [2][]string{{long, "a"}, {host}}}
		for _, e := range events {
			if err := d.event(e); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.report(r); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); width > 0 && n > width {
				t.Errorf("line of %d characters, want %d at most: %q", n, width, line)
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("line ends in blanks: %q", line)
			}
		}
		if width == 0 && strings.Contains(b.String(), "…") {
			t.Errorf("cut, though it is no terminal:\n%s", b.String())
		}
		for _, want := range []string{"3 ticks that nobody claimed in time", "held by itself on b", "max_parallel runs are going", "timed_out", "each@*"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("width %d: %q is not in\n%s", width, want, b.String())
			}
		}
		if !strings.Contains(b.String(), "each@*") || strings.Contains(b.String(), "each@b") {
			t.Errorf("the hosts of a job are not together:\n%s", b.String())
		}
		t.Logf("\n%s", b.String())
	}
}
