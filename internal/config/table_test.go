package config

import (
	"os/user"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/jobs"
	"rota/scheduler"
)

func TestTable_SaysWhatTheConfigSays(t *testing.T) {
	t.Setenv("FOR_JOBS", "yes")
	t.Setenv("NOT_FOR_JOBS", "3cr3t")
	t.Setenv("ROTA_CONFIG", "3cr3t")
	c := mustLoad(t, `[host]
env_pass = ["FOR_JOBS", "UNSET"]

[jobs.b]
schedule = ["0 2 * * *", "0 3 * * *"]
timezone = "Europe/Berlin"
command = ["report", "--full"]
env = { A = "1" }
dir = "/srv"
timeout = "1m"
kill_grace = "2s"
success_codes = [0, 3]
start_deadline = "5m"
enabled = false

[jobs.a]
schedule = "@daily"
shell = "a | b"
`)
	warden := new(jobs.Warden)
	table := c.Table(warden)
	if len(table) != 2 {
		t.Fatalf("Table = %d jobs, want 2", len(table))
	}
	a, b := table[0], table[1]

	u, err := user.Current()
	if err != nil {
		u = nil
	}
	if got, want := b.Handler, (jobs.Command{
		Args: []string{"report", "--full"}, Dir: "/srv", KillGrace: 2 * time.Second, SuccessCodes: []int{0, 3}, Warden: warden,
		Env: jobs.BaseEnv(u, "Europe/Berlin", []string{"FOR_JOBS=yes"}, map[string]string{"A": "1"}),
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("job b runs %+v, want %+v", got, want)
	}
	b.Handler = nil
	if b.Schedule.String() != "0 2 * * *; 0 3 * * * (Europe/Berlin)" {
		t.Errorf("job b is due at %s", b.Schedule)
	}
	b.Schedule = nil
	if want := (scheduler.Job{
		Name: "b", Disabled: true, Timeout: time.Minute, StartDeadline: 5 * time.Minute,
		Overlap: scheduler.OverlapSkip, Misfire: scheduler.MisfireSkip, OnCrash: scheduler.CrashSkip,
		Definition: c.Jobs[1].Definition(), ScheduleHash: c.Jobs[1].ScheduleHash(),
	}); !reflect.DeepEqual(b, want) {
		t.Errorf("job b =\n%+v, want\n%+v", b, want)
	}

	command, ok := a.Handler.(jobs.Command)
	if !ok || !slices.Equal(command.Args, []string{"/bin/sh", "-c", "a | b"}) || command.Dir != "/" || command.KillGrace != 10*time.Second {
		t.Errorf("job a runs %+v, want the shell in / with 10 s of grace", a.Handler)
	}
	if env := strings.Join(command.Env, "\n"); strings.Contains(env, marker) || !strings.Contains(env, "FOR_JOBS=yes") {
		t.Errorf("job a sees %q, want FOR_JOBS and nothing else of the daemon's", command.Env)
	}
}

// TestDefinition_ChangesWithWhatRuns: each line changes the definition, and the schedule's hash
// only if it changes when the job is due.
func TestDefinition_ChangesWithWhatRuns(t *testing.T) {
	const base = "schedule = \"0 2 * * *\"\ncommand = [\"true\"]\n"
	load := func(text string) Job { return mustLoad(t, "[jobs.a]\n"+text).Jobs[0] }
	first := load(base)
	if hex := regexp.MustCompile(`^[0-9a-f]{16}$`); !hex.MatchString(first.Definition()) || !hex.MatchString(first.ScheduleHash()) {
		t.Errorf("Definition %q, ScheduleHash %q, want 16 hexadecimal digits", first.Definition(), first.ScheduleHash())
	}
	for _, tc := range []struct {
		name, text  string
		definition  bool
		scheduleToo bool
	}{
		{"nothing", base, false, false},
		{"blanks", "schedule = \" 0  2 * * * \"\ncommand = [\"true\"]\n", false, false},
		{"an array of one", "schedule = [\"0 2 * * *\"]\ncommand = [\"true\"]\n", false, false},
		{"defaults spelt out", base + "timezone = \"UTC\"\ndir = \"/\"\nenabled = true\noverlap = \"skip\"\n", false, false},
		{"schedule", "schedule = \"0 3 * * *\"\ncommand = [\"true\"]\n", true, true},
		{"another schedule", "schedule = [\"0 2 * * *\", \"0 3 * * *\"]\ncommand = [\"true\"]\n", true, true},
		{"timezone", base + "timezone = \"Europe/Berlin\"\n", true, true},
		{"enabled", base + "enabled = false\n", true, true},
		{"command", "schedule = \"0 2 * * *\"\ncommand = [\"true\", \"x\"]\n", true, false},
		{"where arguments end", "schedule = \"0 2 * * *\"\ncommand = [\"true x\"]\n", true, false},
		{"shell", "schedule = \"0 2 * * *\"\nshell = \"true\"\n", true, false},
		{"env", base + "env = { A = \"1\" }\n", true, false},
		{"dir", base + "dir = \"/srv\"\n", true, false},
		{"timeout", base + "timeout = \"1h\"\n", true, false},
		{"kill_grace", base + "kill_grace = \"1s\"\n", true, false},
		{"success_codes", base + "success_codes = [0, 1]\n", true, false},
		{"start_deadline", base + "start_deadline = \"1m\"\n", true, false},
	} {
		got := load(tc.text)
		if (got.Definition() != first.Definition()) != tc.definition {
			t.Errorf("%s: the definition changes: %t, want %t", tc.name, !tc.definition, tc.definition)
		}
		if (got.ScheduleHash() != first.ScheduleHash()) != tc.scheduleToo {
			t.Errorf("%s: the schedule's hash changes: %t, want %t", tc.name, !tc.scheduleToo, tc.scheduleToo)
		}
	}
}

// Records in Redis outlive a Rota: these hashes may change with a format only, never by accident.
func TestDefinition_StaysTheSameOverReleases(t *testing.T) {
	j := mustLoad(t, "[jobs.a]\nschedule = \"0 2 * * *\"\ncommand = [\"true\"]\nenv = { B = \"2\", A = \"1\" }\n").Jobs[0]
	if got, want := j.Definition(), "4270a3ef51652437"; got != want {
		t.Errorf("Definition = %q, want %q", got, want)
	}
	if got, want := j.ScheduleHash(), "b04d3db1eeb5b089"; got != want {
		t.Errorf("ScheduleHash = %q, want %q", got, want)
	}
}

func TestTableHash_IsThatOfTheTableAlone(t *testing.T) {
	const a = "[jobs.a]\nschedule = \"@daily\"\ncommand = [\"true\"]\n"
	const b = "[jobs.b]\nschedule = \"@daily\"\ncommand = [\"true\"]\n"
	hash := func(files map[string]string) string {
		t.Helper()
		c, err := load(write(t, files), plain())
		if err != nil {
			t.Fatal(err)
		}
		return c.TableHash()
	}
	first := hash(map[string]string{"rota.toml": a + b})
	for name, files := range map[string]map[string]string{
		"another order":  {"rota.toml": b + a},
		"another file":   {"rota.toml": "include = [\"b.toml\"]\n" + a, "b.toml": b},
		"by defaults":    {"rota.toml": "[defaults]\nkill_grace = \"10s\"\n" + a + b},
		"another host":   {"rota.toml": "[host]\nname = \"other\"\nlabels = [\"x\"]\nenv_pass = [\"HOME\"]\n" + a + b},
		"another secret": {"rota.toml": "[redis]\npassword = \"x\"\n" + a + b},
	} {
		if got := hash(files); got != first {
			t.Errorf("%s: TableHash = %s, want the same, %s", name, got, first)
		}
	}
	for name, text := range map[string]string{
		"one job less": a, "another name": a + strings.Replace(b, "jobs.b", "jobs.c", 1),
		"another command": a + strings.Replace(b, "true", "false", 1), "no job": "",
	} {
		if got := hash(map[string]string{"rota.toml": text}); got == first {
			t.Errorf("%s: TableHash = %s, want another", name, got)
		}
	}
}
