package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestParseTime_TakesInstantsAndDurations(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		towards  direction
		want     string
	}{
		{"an instant in UTC", "2026-11-01T03:00:00Z", ago, "2026-11-01T03:00:00Z"},
		{"an instant elsewhere", "2026-11-01T03:00:00-04:00", ahead, "2026-11-01T07:00:00Z"},
		{"a fraction of a second", "2026-11-01T03:00:00.5Z", ahead, "2026-11-01T03:00:00.5Z"},
		{"a duration ahead", "90m", ahead, "2026-11-29T13:30:00Z"},
		{"a duration ago", "90m", ago, "2026-11-29T10:30:00Z"},
		{"days", "1d12h", ago, "2026-11-28T00:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseTime("since", tc.in, noon, tc.towards)
			if err != nil || got.Format(time.RFC3339Nano) != tc.want {
				t.Errorf("parseTime(%q) = %v, %v, want %s", tc.in, got, err, tc.want)
			}
		})
	}
}

func TestParseTime_Refuses(t *testing.T) {
	for _, in := range []string{"", "yesterday", "90", "-5m", "2026-11-29", "2026-11-29 12:00:00", "2026-11-29T12:00:00", "12:00"} {
		t.Run(in, func(t *testing.T) {
			got, err := parseTime("since", in, noon, ago)
			e, ok := errors.AsType[*exitError](err)
			if !ok || e.code != exitUsage || !strings.HasPrefix(e.text, "--since: ") {
				t.Errorf("parseTime(%q) = %v, %v, want an error of usage that names --since", in, got, err)
			}
		})
	}
}

func TestNearest_ByTheMeasureOfCommands(t *testing.T) {
	names := []string{"backup", "report", "report-eu"}
	for in, want := range map[string][]string{
		"bakup":    {"backup"},
		"Backup":   {"backup"},
		"rep":      {"report", "report-eu"},
		"reprot":   {"report"},
		"cleaning": {},
	} {
		if got := nearest(in, names); !slices.Equal(got, want) {
			t.Errorf("nearest(%q, %q) = %q, want %q", in, names, got, want)
		}
	}
	if got, want := didYouMean([]string{"a", "b", "c", "d"}), `did you mean "a" or "b" or "c"?`; got != want {
		t.Errorf("didYouMean of four = %s, want %s", got, want)
	}
}

// Whoever writes a command and checks its arguments by cobra's means gets the exit code of
// wrong usage all the same.
func TestAsUsage_GivesTheExitCode(t *testing.T) {
	c := &cobra.Command{Use: "rota"}
	err := asUsage(cobra.ExactArgs(1))(c, nil)
	if e, ok := errors.AsType[*exitError](err); !ok || e.code != exitUsage {
		t.Errorf("asUsage(ExactArgs(1)) without arguments: got %v, want an error of usage", err)
	}
	if err := asUsage(cobra.ExactArgs(1))(c, []string{"x"}); err != nil {
		t.Errorf("asUsage(ExactArgs(1)) with one argument: got %v, want none", err)
	}
	if asUsage(nil) != nil {
		t.Error("asUsage(nil) is a check, want none")
	}
}
