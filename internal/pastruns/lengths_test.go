package pastruns

import (
	"slices"
	"testing"
	"time"

	"rota/scheduler/ledger"
)

func TestLengths_OfRunsThatEndedByThemselves(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }
	got := lengths([]ledger.Entry{
		{Outcome: "succeeded", Started: at(0), Ended: at(1500)},
		{Outcome: "failed", Started: at(0), Ended: at(20)},
		{Outcome: "timed_out", Started: at(0), Ended: at(60_000)},
		{Outcome: "succeeded", Started: at(7), Ended: at(7)}, // within the same millisecond
		{Outcome: "lost", Started: at(0), Ended: at(30)},
		{Outcome: "cancelled", Started: at(0), Ended: at(40)},
		{Outcome: "interrupted", Started: at(0), Ended: at(50)},
		{Outcome: "running", Started: at(0)},
		{Outcome: "skipped"},
		{Outcome: "failed", Ended: at(10)}, // it never started
	})
	want := []time.Duration{1500 * time.Millisecond, 20 * time.Millisecond, time.Minute, 0}
	if !slices.Equal(got, want) {
		t.Errorf("lengths = %v, want %v", got, want)
	}
}
