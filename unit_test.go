package rota_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What the unit has to leave room for: shutdown.drain and kill_grace of the config, by default.
const (
	defaultDrain     = 60 * time.Second
	defaultKillGrace = 10 * time.Second
)

const unitFile = "systemd/rota.service"

// parseUnit reads a unit file (systemd.syntax(7)): the values of each key, under "Section.Key". A
// key may be given more than once.
func parseUnit(t *testing.T, text string) map[string][]string {
	t.Helper()
	unit := map[string][]string{}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s:%d: %q is no KEY=VALUE in a section", unitFile, i+1, line)
			}
			key = section + "." + strings.TrimSpace(key)
			unit[key] = append(unit[key], strings.TrimSpace(value))
		}
	}
	return unit
}

func readUnit(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	return parseUnit(t, string(text))
}

func TestUnit_KeepsTheDaemonsPromises(t *testing.T) {
	unit := readUnit(t)
	for _, want := range []struct{ key, value, why string }{
		{"Service.Type", "notify", "systemd 252 knows no notify-reload and would take it for simple"},
		{"Service.ExecStart", "/usr/bin/rota run", "the daemon"},
		{"Service.ExecReload", "/usr/bin/rota check kill -HUP $MAINPID", "a bad file is refused before the signal"},
		{"Service.WatchdogSec", "30s", "a daemon whose loop stands still is restarted"},
		{"Service.KillMode", "mixed", "the daemon ends its runs itself, and nothing outlives it"},
		{"Service.OOMPolicy", "continue", "one job's memory must not end the daemon"},
		{"Service.Delegate", "cpu memory pids", "runs end whole, and limits hold"},
		{"Service.Restart", "on-failure", "the jobs of a host do not stop with one crash"},
		{"Unit.StartLimitIntervalSec", "0", "nor with several in a row"},
		{"Service.RestartPreventExitStatus", "2", "an invalid config is not mended by a restart"},
		{"Service.StateDirectory", "rota", "undelivered outcomes need a place"},
		{"Service.StateDirectoryMode", "0700", "and nobody else may read them"},
	} {
		if got := strings.Join(unit[want.key], " "); got != want.value {
			t.Errorf("%s: %s = %q, want %q: %s", unitFile, want.key, got, want.value, want.why)
		}
	}
}

// The unit says what it leaves out, and why; a key that it sets cannot be among that.
func TestUnit_LeavesOutWhatItSaysItDoes(t *testing.T) {
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	_, left, found := strings.Cut(string(text), "Not set either:")
	named := regexp.MustCompile(`(?m)^# +([A-Z][A-Za-z]+)=`).FindAllStringSubmatch(left, -1)
	if !found || len(named) == 0 {
		t.Fatalf("%s: found nothing that it says it leaves out", unitFile)
	}
	unit := readUnit(t)
	for _, key := range named {
		if got := unit["Service."+key[1]]; got != nil {
			t.Errorf("%s: %s is said not to be set, and is %q", unitFile, key[1], got)
		}
	}
}

func TestUnit_StopsLaterThanTheDaemon(t *testing.T) {
	text := strings.Join(readUnit(t)["Service.TimeoutStopSec"], " ")
	got, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: TimeoutStopSec = %q, want a duration: %v", unitFile, text, err)
	}
	if bound := defaultDrain + defaultKillGrace; got <= bound {
		t.Errorf("%s: TimeoutStopSec = %v, want more than drain + kill_grace (%v)", unitFile, got, bound)
	}
}

// What is harmless for the daemon may be fatal for a job. Each of these takes something away that
// jobs of real tables need; the unit says what.
func TestUnit_LeavesTheJobsAlone(t *testing.T) {
	unit := readUnit(t)
	for _, key := range []string{
		"NoNewPrivileges", "DynamicUser", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateMounts",
		"PrivateDevices", "PrivateNetwork", "ProtectProc", "ProtectControlGroups", "CapabilityBoundingSet",
		"SystemCallFilter", "MemoryDenyWriteExecute", "MemoryMax", "TasksMax", "RestrictAddressFamilies",
	} {
		if got := unit["Service."+key]; got != nil {
			t.Errorf("%s: %s = %q, want it left to a drop-in", unitFile, key, got)
		}
	}
}

// systemd itself is the better judge of a misspelt key. Where a distribution has none there is nobody
// to ask; `make deps` installs it on the others, and in CI it has to be there.
func TestUnit_PassesSystemdAnalyze(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("no systemd-analyze here: make deps installs it where there is one")
	}
	if err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // verify wants the programs to exist
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "rota.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), "/usr/bin/rota", self)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Its exit code says nothing: it is 0 with a misspelt key. Other units of this machine, which it
	// reads as well, are none of ours.
	out, _ := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", copied).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "rota.service") {
			t.Errorf("systemd-analyze verify %s: %s", unitFile, line)
		}
	}
}
