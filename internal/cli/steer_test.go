package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rota/internal/config"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

func TestSession_ByRefusesWhatCannotBeShown(t *testing.T) {
	s := &session{cfg: &config.Config{Host: config.Host{Name: "web-1"}}}
	by, err := s.by("  database upgrade\n")
	if err != nil || by.Why != "database upgrade" || !strings.HasSuffix(by.Who, "@web-1") {
		t.Errorf(`by("  database upgrade\n") = %q, %v, want the reason without the blanks around it, by somebody at web-1`, by, err)
	}
	for _, reason := range []string{"one\ntwo", "\x1b[2J", "\u202e", "\xff", strings.Repeat("x", 201)} {
		_, err := s.by(reason)
		e, ok := errors.AsType[*exitError](err)
		if !ok || e.code != exitUsage || !strings.HasPrefix(e.text, "--reason: ") || plain(e.text) != e.text {
			t.Errorf("by(%q) = %v, want an error of usage that names --reason, and does not repeat it", reason, err)
		}
	}
}

// Without a name that can be shown, the number will do; and a host's name may be as long as any.
func TestAsker_CanBeKept(t *testing.T) {
	for _, host := range []string{"web-1", strings.Repeat("x", 64)} {
		got := asker(host)
		if err := (ledger.By{Who: got}).Check(); err != nil || !strings.HasSuffix(got, "@"+host) || len(got) == len("@"+host) {
			t.Errorf("asker(%s) = %q: %v, want somebody at it", host, got, err)
		}
	}
}

// The record of a job that is due once a year must not go with its pause.
func TestTarget_ExpiryIsThatOfTheJob(t *testing.T) {
	const day = 24 * time.Hour
	s := &session{cfg: &config.Config{History: config.History{MaxAge: 14 * day}}}
	for spec, want := range map[string]time.Duration{"* * * * *": 15 * day, "@yearly": 731 * day} {
		rule, err := schedule.Parse("UTC", spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := (target{job: ofFleet(&config.Job{Schedule: rule})}).expiry(s, noon); got != want {
			t.Errorf("expiry of a job with the schedule %s = %s, want %s", spec, got, want)
		}
	}
}

func TestPausedText_SaysWhoUntilWhenAndWhy(t *testing.T) {
	ends, never := noon.Add(time.Hour), time.UnixMilli(1<<53-1)
	for _, tc := range []struct {
		name string
		h    ledger.Pause
		want string
	}{
		{"all there is", ledger.Pause{By: ledger.By{Who: "ada", Why: "upgrade"}, Until: ends}, "paused by ada until 13:00Z: upgrade"},
		{"no end", ledger.Pause{By: ledger.By{Who: "ada", Why: "upgrade"}, Until: never}, "paused by ada until resumed: upgrade"},
		{"no reason", ledger.Pause{By: ledger.By{Who: "ada"}, Until: ends}, "paused by ada until 13:00Z"},
		{"nobody said who", ledger.Pause{Until: never}, "paused until resumed"},
		{"a reason that is not ours", ledger.Pause{By: ledger.By{Why: "\x1b[2J\nrota: done"}, Until: never}, "paused until resumed: \uFFFD[2J rota: done"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pausedText(&tc.h, clock(tc.h.Until, noon)); got != tc.want {
				t.Errorf("pausedText(%v) = %q, want %q", tc.h, got, tc.want)
			}
		})
	}
}
