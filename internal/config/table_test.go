package config

import (
	"fmt"
	"path/filepath"
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
env = { B = "2", A = "1" }
env_file = "/etc/rota/b.env"
dir = "/srv"
user = "report"
group = "adm"
umask = "0027"
nice = -5
timeout = "1m"
kill_grace = "2s"
success_codes = [0, 3]
start_deadline = "5m"
splay = "10m"
scope = "host"
hosts = ["db"]
lock = "db"
misfire = "all"
on_crash = "rerun"
overlap = "allow"
max_parallel = 3
enabled = false

[jobs.a]
schedule = "@daily"
shell = "a | b"
`)
	warden := new(jobs.Warden)
	table := c.Table(t.Context(), warden)
	if len(table) != 2 {
		t.Fatalf("Table = %d jobs, want 2", len(table))
	}
	a, b := table[0], table[1]

	self, err := jobs.LookupAccount(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Handler, (jobs.Command{
		Args: []string{"report", "--full"}, Dir: "/srv", KillGrace: 2 * time.Second, SuccessCodes: []int{0, 3}, Warden: warden,
		Base: jobs.BaseEnv(self, "Europe/Berlin", []string{"FOR_JOBS=yes"}), Env: []string{"A=1", "B=2"}, EnvFile: "/etc/rota/b.env",
		User: "report", Group: "adm", Umask: new(0o27), Nice: new(-5),
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("job b runs %+v, want %+v", got, want)
	}
	b.Handler = nil
	if b.Schedule.String() != "0 2 * * *; 0 3 * * * (Europe/Berlin)" {
		t.Errorf("job b is due at %s", b.Schedule)
	}
	b.Schedule = nil
	if want := (scheduler.Job{
		Name: "b", Counts: true, Disabled: true, Timeout: time.Minute, StartDeadline: 5 * time.Minute,
		Splay: 10 * time.Minute, Scope: scheduler.ScopeHost, Hosts: []string{"db"}, Lock: "db",
		Overlap: scheduler.OverlapAllow, MaxParallel: 3, Misfire: scheduler.MisfireAll, OnCrash: scheduler.CrashRerun,
		Definition: c.Jobs[1].Definition(), ScheduleHash: c.Jobs[1].ScheduleHash(),
	}); !reflect.DeepEqual(b, want) {
		t.Errorf("job b =\n%+v, want\n%+v", b, want)
	}

	command, ok := a.Handler.(jobs.Command)
	if !ok || !slices.Equal(command.Args, []string{"/bin/sh", "-c", "a | b"}) || command.Dir != "/" || command.KillGrace != 10*time.Second {
		t.Errorf("job a runs %+v, want the shell in / with 10 s of grace", a.Handler)
	}
	if env := strings.Join(slices.Concat(command.Base, command.Env), "\n"); strings.Contains(env, marker) || !strings.Contains(env, "FOR_JOBS=yes") {
		t.Errorf("job a sees %q, want FOR_JOBS and nothing else of the daemon's", env)
	}
}

// TestDefinition_ChangesWithWhatRuns: each line changes the definition, and the schedule's hash
// only if it changes when the job is due.
func TestDefinition_ChangesWithWhatRuns(t *testing.T) {
	const base = "schedule = \"0 2 * * *\"\ncommand = [\"true\"]\n"
	load := func(text string) Job { return mustLoad(t, "[jobs.a]\n"+text).Jobs[0] }
	envFile := filepath.Join(filepath.Dir(write(t, map[string]string{"a.env": "A=1\n"})), "a.env")
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
		{"env_file", base + "env_file = \"" + envFile + "\"\n", true, false},
		{"dir", base + "dir = \"/srv\"\n", true, false},
		{"user", base + "user = \"report\"\n", true, false},
		{"group", base + "group = \"adm\"\n", true, false},
		{"umask", base + "umask = \"0027\"\n", true, false},
		{"a umask of nothing", base + "umask = \"0\"\n", true, false},
		{"nice", base + "nice = 10\n", true, false},
		{"a nice of nothing", base + "nice = 0\n", true, false},
		{"the daemon's user spelt out", base + "user = \"\"\ngroup = \"\"\nenv_file = \"\"\n", false, false},
		{"timeout", base + "timeout = \"1h\"\n", true, false},
		{"kill_grace", base + "kill_grace = \"1s\"\n", true, false},
		{"success_codes", base + "success_codes = [0, 1]\n", true, false},
		{"start_deadline", base + "start_deadline = \"1m\"\n", true, false},
		{"splay", base + "splay = \"1m\"\n", true, false},
		{"scope", base + "scope = \"host\"\n", true, false},
		{"hosts", base + "hosts = [\"db\"]\n", true, false},
		{"misfire", base + "misfire = \"once\"\n", true, false},
		{"on_crash", base + "on_crash = \"rerun\"\n", true, false},
		{"lock", base + "lock = \"db\"\n", true, false},
		{"overlap", base + "overlap = \"allow\"\n", true, false},
		{"a bound that says nothing", base + "max_parallel = 3\n", false, false},
		{"retries", base + "retries = 1\n", true, false},
		{"waits without retries", base + "retry_backoff = \"2s\"\nretry_max = \"2s\"\n", false, false},
		{"a request", "schedule = \"0 2 * * *\"\nhttp = { url = \"https://a.example/\" }\n", true, false},
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

// Each line is another request, and so another definition; none of them shows what it is made of.
func TestDefinition_OfRequestsAndRetries(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		`http = { url = "https://a.example/" }`,
		`http = { url = "https://b.example/" }`,
		`http = { url = "https://me:3cr3t@a.example/" }`,
		`http = { url = "https://me:3cr3u@a.example/" }`,
		`http = { url = "https://a.example/", method = "GET" }`,
		`http = { url = "https://a.example/", headers = { A = "3cr3t" } }`,
		`http = { url = "https://a.example/", headers = { A = "3cr3u" } }`,
		`http = { url = "https://a.example/", body = "x" }`,
		`http = { url = "https://a.example/", expect = [200] }`,
		"http = { url = \"https://a.example/\" }\nretries = 1",
		"http = { url = \"https://a.example/\" }\nretries = 2",
		"http = { url = \"https://a.example/\" }\nretries = 2\nretry_backoff = \"2s\"",
		"http = { url = \"https://a.example/\" }\nretries = 2\nretry_max = \"2s\"",
	} {
		j := mustLoad(t, "[jobs.a]\nschedule = \"@daily\"\n"+text+"\n").Jobs[0]
		if other, ok := seen[j.Definition()]; ok {
			t.Errorf("%s and %s have one definition", text, other)
		}
		seen[j.Definition()] = text
		if j.Request == nil || strings.Contains(fmt.Sprintf("%+v", j.Request.URL), "example") {
			t.Errorf("%s: the request is %+v, want one whose URL is not shown", text, j.Request)
		}
	}
	same := `http = { url = "https://a.example/", method = "POST", headers = {}, body = "" }`
	j := mustLoad(t, "[jobs.a]\nschedule = \"@daily\"\n"+same+"\n").Jobs[0]
	if seen[j.Definition()] == "" {
		t.Error("defaults of a request that are spelt out are another definition")
	}
	if got, want := j.Definition(), "6a25e0ddaa1fd08b"; got != want {
		t.Errorf("Definition = %q, want it the same over releases, %q", got, want)
	}
}

func TestTable_OfRequestsAndRetries(t *testing.T) {
	c := mustLoad(t, `[defaults]
retries = 2
retry_backoff = "3s"

[jobs.a]
schedule = "@daily"
[jobs.a.http]
url = "https://me:x@a.example/y"
method = "PUT"
body = "b"
expect = [200]
[jobs.a.http.headers]
X-A = "1"

[jobs.b]
schedule = "@daily"
retries = 0
http = { url = "http://b.example" }

[jobs.c]
schedule = "@daily"
command = ["true"]
retry_max = "4s"
`)
	table := c.Table(t.Context(), nil)
	if got, want := table[0].Handler, (jobs.Retry{
		Handler: jobs.HTTP{
			URL: "https://me:x@a.example/y", Method: "PUT", Body: "b", Expect: []int{200}, Headers: map[string]string{"X-A": "1"},
		},
		Retries: 2, Backoff: 3 * time.Second, Max: 5 * time.Minute,
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("job a runs %#v, want %#v", got, want)
	}
	if got, want := table[1].Handler, (jobs.HTTP{URL: "http://b.example", Method: "POST", Headers: map[string]string{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("job b runs %#v, want %#v", got, want)
	}
	retry, ok := table[2].Handler.(jobs.Retry)
	if command, isCommand := retry.Handler.(jobs.Command); !ok || !isCommand || !slices.Equal(command.Args, []string{"true"}) {
		t.Errorf("job c runs %#v, want its command with retries", table[2].Handler)
	}
	if retry.Retries != 2 || retry.Backoff != 3*time.Second || retry.Max != 4*time.Second {
		t.Errorf("job c is tried again %d times after %v to %v, want 2, 3s, 4s", retry.Retries, retry.Backoff, retry.Max)
	}
}

func TestLoad_WarnsOfWhatRequestsDoNotUse(t *testing.T) {
	c := mustLoad(t, `[defaults]
kill_grace = "1s"
env = { A = "1" }

[jobs.a]
schedule = "@daily"
http = { url = "http://a.example" }
dir = "/srv"
success_codes = [0, 3]
kill_grace = "10s"
env = {}

[jobs.b]
schedule = "@daily"
timeout = "1m"
http = { url = "http://a.example" }
`)
	var got []string
	for _, w := range c.Warnings {
		_, w, _ = strings.Cut(w, "rota.toml:")
		got = append(got, w)
	}
	want := []string{
		"7: jobs.a.http: a server that never finishes its answer holds the lock for ever; set timeout",
		"8: jobs.a.dir: has no effect on an http job",
		"9: jobs.a.success_codes: has no effect on an http job; the status codes that mean success are http.expect",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Warnings = %q, want %q", got, want)
	}
}
