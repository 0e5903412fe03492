package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"rota/internal/config"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

func scopes() *config.Config {
	return &config.Config{Path: "rota.toml", Host: config.Host{Name: "web-1"}, Jobs: []config.Job{
		{Name: "backup"},
		{Name: "cleanup", Scope: scheduler.ScopeHost, Hosts: []string{"web"}},
	}}
}

func TestFindRef_ReadsNames(t *testing.T) {
	for arg, want := range map[string]string{
		"backup":        "backup",
		"cleanup":       "cleanup everywhere",
		"cleanup@web-9": "cleanup@web-9 on web-9",
		"backup@web-1":  "error: backup runs once in the fleet",
		"cleanup@a/b":   "error: \"cleanup@a/b\": \"a/b\" is no name",
		"cleanup@":      "error: \"cleanup@\": \"\" is no name",
		"clean@web-1":   "error: there is no job \"clean\"",
		"@web-1":        "error: there is no job \"\"",
	} {
		r, err := findRef(scopes(), arg)
		got := r.key
		switch {
		case err != nil:
			got = "error: " + err.Error()
		case r.everywhere():
			got += " everywhere"
		case r.host != "":
			got += " on " + r.host
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("findRef(%q) = %q, want %q", arg, got, want)
		}
		if e, ok := errors.AsType[*exitError](err); err != nil && (!ok || e.code != exitUsage) {
			t.Errorf("findRef(%q) = %v, want an error of usage", arg, err)
		}
	}
	if _, err := findOne(scopes(), "cleanup"); err == nil || !strings.Contains(err.Error(), "runs on every host") {
		t.Errorf("findOne(cleanup) = %v, want an error: it is several", err)
	}
	for _, arg := range []string{"backup", "cleanup@web-1"} {
		if r, err := findOne(scopes(), arg); err != nil || r.key != arg {
			t.Errorf("findOne(%s) = %s, %v", arg, r.key, err)
		}
	}
}

func TestSpread_IsOverTheHostsThatMayRunIt(t *testing.T) {
	s := &session{cfg: scopes()}
	hosts := []ledger.Host{{Name: "a", Labels: []string{"web"}}, {Name: "b"}, {Name: "web"}}
	if got, want := keys(spread(s.table(), hosts)), []string{"backup", "cleanup@a", "cleanup@web"}; !slices.Equal(got, want) {
		t.Errorf("spread = %q, want %q", got, want)
	}
	if got, want := keys(spread(s.table(), hosts[1:2])), []string{"backup", "cleanup"}; !slices.Equal(got, want) {
		t.Errorf("spread without such a host = %q, want %q", got, want)
	}
}
