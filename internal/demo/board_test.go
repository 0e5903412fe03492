package demo

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// at is a tick of the tests: n seconds after noon.
func at(n int) time.Time { return time.Date(2026, 11, 29, 12, 0, n, 0, time.UTC) }

// testBoard shows all ticks after noon, of three hosts.
func testBoard() *board {
	b := newBoard([]string{"web-1", "web-2", "web-3"}, []string{quickJob, slowJob})
	b.from = at(0)
	return b
}

// cells names the cells of a row, for failure messages and comparisons.
func cells(r *row) string {
	v := &view{hosts: []string{"web-1"}}
	var words []string
	for _, c := range r.cells {
		_, word, _ := v.cell(c)
		if word == "" {
			word = "silent"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func rowsOf(rows []*row) string {
	var lines []string
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("%s %s: %s", r.tick.Format("05"), r.job, cells(r)))
	}
	return strings.Join(lines, "\n")
}

func TestBoard_PutsARaceTogether(t *testing.T) {
	won := func(host, job string, n int, token int64) event {
		return event{host: host, kind: runStarted, job: job, tick: at(n), token: token}
	}
	other := func(host string, k kind, job string, n int) event {
		return event{host: host, kind: k, job: job, tick: at(n)}
	}
	for _, tc := range []struct {
		name   string
		events []event
		after  time.Duration // since they were read
		want   string
	}{
		{
			"rows come in the order of the table, whatever the order of the events",
			[]event{
				won("web-2", slowJob, 1, 7), other("web-1", claimLost, slowJob, 1), other("web-3", tickLeft, slowJob, 1),
				other("web-1", tickLeft, quickJob, 1), won("web-3", quickJob, 1, 8), other("web-2", tickLeft, quickJob, 1),
			},
			0,
			"01 mail: left it, left it, won\n01 report: lost, won, left it",
		},
		{
			"a row waits for the last host, and the rows after it wait with it",
			[]event{
				won("web-1", quickJob, 1, 7), other("web-2", tickLeft, quickJob, 1),
				won("web-2", slowJob, 1, 8), other("web-1", tickLeft, slowJob, 1), other("web-3", tickLeft, slowJob, 1),
			},
			patience - 1,
			"",
		},
		{
			"it does not wait for ever",
			[]event{won("web-1", quickJob, 1, 7), other("web-1", tickLeft, slowJob, 1)},
			patience,
			"01 mail: won, silent, silent\n01 report: left it, silent, silent",
		},
		{
			"ticks outside of the window are not shown",
			[]event{won("web-1", quickJob, 0, 7), won("web-1", quickJob, 9, 8)},
			patience,
			"",
		},
		{
			"what nobody ran",
			[]event{
				{host: "web-1", kind: tickSkipped, job: slowJob, tick: at(1), holder: "web-2"},
				other("web-2", tickMissed, quickJob, 1),
			},
			patience,
			"01 mail: silent, missed, silent\n01 report: skipped, silent, silent",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := testBoard()
			b.until = at(8)
			now := at(1)
			for _, e := range tc.events {
				b.add(e, now)
			}
			if got := rowsOf(b.flush(now.Add(tc.after), false)); got != tc.want {
				t.Errorf("flush after %s = \n%s\nwant\n%s", tc.after, got, tc.want)
			}
		})
	}
}

func TestBoard_ShowsNoRowTwice(t *testing.T) {
	b := testBoard()
	now := at(1)
	b.add(event{host: "web-1", kind: runStarted, job: quickJob, tick: at(1), token: 7}, now)
	first := b.flush(now, true)
	b.add(event{host: "web-2", kind: claimLost, job: quickJob, tick: at(1)}, now)
	if again := b.flush(now, true); len(first) != 2 || len(again) != 0 {
		t.Errorf("flush = %d rows, then %d after a late word, want 2, then 0", len(first), len(again))
	}
}

func TestBoard_CountsDoubles(t *testing.T) {
	b := testBoard()
	for _, host := range []string{"web-1", "web-2"} {
		b.add(event{host: host, kind: runStarted, job: quickJob, tick: at(1), token: 7}, at(1))
		b.flush(at(1), true) // also when the row was shown before the second run
	}
	b.add(event{host: "web-1", kind: runStarted, job: slowJob, tick: at(1), token: 8}, at(1))
	if b.runs != 3 || b.doubles != 1 || b.ticks != 2 {
		t.Errorf("runs, doubles, ticks = %d, %d, %d, want 3, 1, 2", b.runs, b.doubles, b.ticks)
	}
}

func TestBoard_TakesADeathIn(t *testing.T) {
	start := func(host, job string, n int, token int64) event {
		return event{host: host, kind: runStarted, job: job, tick: at(n), token: token}
	}
	b := testBoard()
	b.add(start("web-2", quickJob, 1, 5), at(1))
	b.add(event{host: "web-2", kind: runEnded, job: quickJob, tick: at(1), token: 5}, at(1))
	b.add(start("web-2", slowJob, 1, 6), at(1))
	b.add(start("web-1", quickJob, 2, 7), at(2))
	if got := b.die("web-2"); !slices.Equal(got, []string{slowJob}) {
		t.Errorf("die = %q, want only the job whose run goes on, %q", got, slowJob)
	}
	b.add(event{host: "web-3", kind: tickSkipped, job: slowJob, tick: at(2), holder: "web-2"}, at(2))
	b.add(start("web-3", slowJob, 3, 9), at(3))
	b.add(start("web-1", slowJob, 4, 10), at(4))
	rows := b.flush(at(9), true)
	want := strings.Join([]string{
		"01 mail: silent, won, silent",
		"01 report: silent, won, silent",
		"02 mail: won, killed, silent",
		"02 report: silent, killed, skipped",
		"03 mail: silent, killed, silent",
		"03 report: silent, killed, won",
		"04 mail: silent, killed, silent",
		"04 report: won, killed, silent",
	}, "\n")
	if got := rowsOf(rows); got != want {
		t.Fatalf("flush =\n%s\nwant\n%s", got, want)
	}
	if rows[3].alive {
		t.Error("the holder counts as alive, want dead")
	}
	for i, r := range rows {
		if (r.took != nil) != (i == 5) {
			t.Errorf("row %d: took = %+v, want a takeover in row 5 alone", i, r.took)
		}
	}
	if got, want := *rows[5].took, (takeover{slowJob, "web-2", "web-3", 6, 9}); got != want {
		t.Errorf("took = %+v, want %+v", got, want)
	}
}
