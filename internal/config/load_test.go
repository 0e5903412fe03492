package config

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/scheduler"
)

// write makes a directory with the files, by their path below it, and returns the path of
// rota.toml in it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "rota.toml")
}

// mustLoad loads a single file with that text.
func mustLoad(t *testing.T, text string) *Config {
	t.Helper()
	c, err := load(write(t, map[string]string{"rota.toml": text}), plain())
	if err != nil {
		t.Fatalf("load of\n%s\n= %v", text, err)
	}
	return c
}

// faultsOf loads path, which must be refused, and returns the lines with its directory cut off.
func faultsOf(t *testing.T, path string, env environment) []string {
	t.Helper()
	c, err := load(path, env)
	if _, ok := errors.AsType[*Faults](err); !ok {
		t.Fatalf("load = %v, %v, want *Faults", c, err)
	}
	return strings.Split(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), "\n")
}

func TestLoad_EmptyFileIsATableOfDefaults(t *testing.T) {
	path := "testdata/good/empty.toml"
	c, err := load(path, plain())
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path: abs, Files: []string{path},
		Namespace: "rota", Timezone: "UTC", StateDir: "/var/lib/rota",
		Host:     Host{Name: "testhost", Labels: []string{}, EnvPass: []string{}},
		Redis:    Redis{URL: "redis://127.0.0.1:6379/0", Addrs: []string{}, OpTimeout: 1500 * time.Millisecond},
		Lease:    Lease{30 * time.Second, 5 * time.Second, 5 * time.Second, "retry"},
		HTTP:     HTTP{Listen: "127.0.0.1:8440"},
		Log:      Log{slog.LevelInfo, "auto"},
		History:  History{50, 14 * 24 * time.Hour, 16 << 10},
		Shutdown: Shutdown{time.Minute},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("load of an empty file =\n%+v, want\n%+v", c, want)
	}
}

func TestLoad_EveryValueArrives(t *testing.T) {
	c, err := load("testdata/good/everything.toml", plain())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(c.Path)
	jobs := c.Jobs
	c.Path, c.Files, c.Jobs = "", nil, nil
	want := &Config{
		Namespace: "fleet-1", Timezone: "Europe/Berlin", StateDir: "/srv/rota",
		Host: Host{Name: "web-1", Labels: []string{"db", "eu"}, MaxRuns: 12, EnvPass: []string{"LC_ALL"}},
		Redis: Redis{
			Addrs: []string{}, TLS: &TLS{},
			URL: "rediss://redis.example.org:6380/3", Username: "me", Password: NewSecret("p@ss/w#rd"),
			OpTimeout: 500 * time.Millisecond,
		},
		Lease:    Lease{time.Minute, 10 * time.Second, 0, "cancel"},
		HTTP:     HTTP{"unix:/run/rota/http.sock", filepath.Join(dir, "token")},
		Log:      Log{slog.LevelDebug, "journal"},
		History:  History{7, 36 * time.Hour, 1 << 20},
		Shutdown: Shutdown{0},
	}
	c.Warnings = nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("load =\n%+v, want\n%+v", c, want)
	}

	base := Job{
		File: "testdata/good/everything.toml", Timezone: "Europe/Berlin", Enabled: true, Dir: "/",
		Env: map[string]string{"A": "default", "B": "default"}, Timeout: time.Hour, SuccessCodes: []int{0},
		RetryBackoff: time.Second, RetryMax: 5 * time.Minute,
		Scope: scheduler.ScopeOnce, Hosts: []string{}, Overlap: scheduler.OverlapSkip, MaxParallel: 10, Misfire: scheduler.MisfireSkip, OnCrash: scheduler.CrashSkip,
	}
	a, b, dotted, hook := base, base, base, base
	a.Name, a.Shell = "a", "a | b"
	b.Name, b.Timezone, b.Enabled = "b", "America/New_York", false
	b.Command, b.Dir, b.Timeout, b.KillGrace = []string{"report", "--full"}, "/srv", 90*time.Second, 2*time.Second
	b.Env, b.EnvFile = map[string]string{"A": "default", "B": "own", "C": "own"}, "/etc/rota/b.env"
	b.User, b.Group, b.Umask, b.Nice = "report", "65534", new(0o27), new(10)
	b.SuccessCodes, b.StartDeadline = []int{0, 3}, 5*time.Minute
	b.Scope, b.Hosts = scheduler.ScopeHost, []string{"db", "web-1"}
	b.Splay, b.Lock, b.Overlap, b.MaxParallel = 10*time.Minute, "db", scheduler.OverlapAllow, 3
	b.Retries, b.RetryBackoff, b.RetryMax = 4, 0, time.Minute
	dotted.Name, dotted.Command = "a.b", []string{"true"}
	hook.Name, hook.Request = "hook", &Request{
		URL: NewSecret("https://me:p%40ss@hooks.example.org/run?x=y"), Method: "PUT", Body: `{"full": true}`,
		Headers: map[string]string{"Content-Type": "application/json", "X-Token": "t"}, Expect: []int{200, 404},
	}
	specs := [][]string{{"@every 90s"}, {"0 5 * * *"}, {"0 2 * * *", "30 2 * * 1"}, {"@hourly"}}
	for i, want := range []Job{a, dotted, b, hook} {
		got := jobs[i]
		if s := got.Schedule; !slices.Equal(s.Specs(), specs[i]) || s.Zone() != want.Timezone {
			t.Errorf("job %d has the schedule %s, want %q in %s", i, s, specs[i], want.Timezone)
		}
		got.Schedule, got.specs = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("job %d =\n%+v, want\n%+v", i, got, want)
		}
	}
}

// T13: the order is bytewise, and what editors and package managers leave lying is not read.
func TestLoad_IncludesOnlyTOMLInBytewiseOrder(t *testing.T) {
	job := func(name string) string {
		return "[jobs." + name + "]\nschedule = \"* * * * *\"\ncommand = [\"true\"]\n"
	}
	path := write(t, map[string]string{
		"rota.toml":              `include = ["last.toml", "jobs.d/*.toml", "jobs.d/10-a.toml", "empty.d/*.toml"]` + "\n" + job("main"),
		"jobs.d/10-a.toml":       job("ten"),
		"jobs.d/9-b.toml":        job("nine"),
		"jobs.d/B.toml":          job("upper"),
		"jobs.d/b.toml~":         "broken",
		"jobs.d/.c.toml.swp":     "broken",
		"jobs.d/.hidden.toml":    "broken",
		"jobs.d/d.toml.rpmsave":  "broken",
		"jobs.d/e.toml.dpkg-new": "broken",
		"last.toml":              job("last"),
	})
	// The lock file of an editor is a link to nothing.
	if err := os.Symlink("me@host.1234", filepath.Join(filepath.Dir(path), "jobs.d/.#10-a.toml")); err != nil {
		t.Fatal(err)
	}
	c, err := load(path, plain())
	if err != nil {
		t.Fatal(err)
	}
	var files, jobs []string
	for _, f := range c.Files {
		rel, err := filepath.Rel(filepath.Dir(path), f)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, rel)
	}
	for _, j := range c.Jobs {
		jobs = append(jobs, j.Name)
	}
	if want := []string{"rota.toml", "last.toml", "jobs.d/10-a.toml", "jobs.d/9-b.toml", "jobs.d/B.toml"}; !slices.Equal(files, want) {
		t.Errorf("Files = %q, want %q", files, want)
	}
	if want := []string{"last", "main", "nine", "ten", "upper"}; !slices.Equal(jobs, want) {
		t.Errorf("Jobs = %q, want %q", jobs, want)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `"empty.d/*.toml" matches no file`) {
		t.Errorf("Warnings = %q, want one, of the pattern that matches nothing", c.Warnings)
	}
}

// T13: what cannot be read is a fault; a table with a hole in it is not run.
func TestLoad_IncludesThatCannotBeRead(t *testing.T) {
	path := write(t, map[string]string{
		"rota.toml":         `include = ["jobs.d/*.toml", "file/*.toml", "*.toml"]`,
		"jobs.d/whole.toml": "",
		"file":              "",
	})
	dir := filepath.Dir(path)
	for name, target := range map[string]string{
		"jobs.d/1-dangling.toml":   "nothing",
		"jobs.d/2-unreadable.toml": "/proc/self/mem", // whatever the user, its first page is not there to read
		"jobs.d/3-device.toml":     "/dev/zero",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "jobs.d/4-directory.toml"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := faultsOf(t, path, plain())
	slices.Sort(got)
	want := []string{
		`rota.toml:1: include: "*.toml" includes this file itself; keep the files of jobs in a directory of their own`,
		`rota.toml:1: include: "file/*.toml" cannot be read: not a directory`,
		`rota.toml:1: include: "jobs.d/1-dangling.toml" is a symbolic link to nothing`,
		`rota.toml:1: include: "jobs.d/2-unreadable.toml" cannot be read: input/output error`,
		`rota.toml:1: include: "jobs.d/3-device.toml" is not a regular file`,
		`rota.toml:1: include: "jobs.d/4-directory.toml" is not a regular file`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("load =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Names of files are part of messages, and may hold anything but a slash and a NUL.
func TestLoad_NamesOfFilesAreEscaped(t *testing.T) {
	const name = "a\x1b[31m\nb\u009b\u202e\xff.toml"
	got := faultsOf(t, write(t, map[string]string{"rota.toml": `include = ["jobs.d/*.toml"]`, "jobs.d/" + name: "a = 1\n"}), plain())
	want := []string{`jobs.d/a\x1b[31m\nb\u009b\u202e\xff.toml:1: a: only [jobs.NAME] tables may stand in an included file`}
	if !slices.Equal(got, want) {
		t.Errorf("load = %q, want %q", got, want)
	}
}

// T08 and more: a fault of one file does not hide those of the next.
func TestLoad_FaultsOfAllFilesTogether(t *testing.T) {
	path := write(t, map[string]string{
		"rota.toml": `include = ["jobs.d/*.toml"]
namespace = "a b"

[jobs.backup]
schedule = "0 2 * * *"
command = ["true"]
`,
		"jobs.d/1.toml": `namespace = "x"
timeout = "5s"

[redis]
password = "s3cr3t"

[jobs.backup]
schedule = "0 3 * * *"
command = ["true"]

[jobs.twice]
schedule = "0 3 * * *"
command = ["true"]

[job.x]
`,
		"jobs.d/2.toml": `[jobs.x
schedule = "0 3 * * *"

[jobs.twice]
schedule = "0 3 * * *"
command = ["true"]
`,
		"jobs.d/3.toml": `[jobs.lonely]
shell = "true"
`,
	})
	got := faultsOf(t, path, plain())
	want := []string{
		`rota.toml:2: namespace: "a b" is not 1 to 32 characters of A-Z a-z 0-9 . _ -`,
		`jobs.d/1.toml:1: namespace: only [jobs.NAME] tables may stand in an included file; it belongs in rota.toml`,
		`jobs.d/1.toml:2: timeout: only [jobs.NAME] tables may stand in an included file; it belongs in [jobs.NAME]`,
		`jobs.d/1.toml:4: redis: only [jobs.NAME] tables may stand in an included file; it belongs in rota.toml`,
		`jobs.d/1.toml:7: jobs.backup: is defined in rota.toml already, on line 4`,
		`jobs.d/1.toml:15: job: only [jobs.NAME] tables may stand in an included file; did you mean "jobs"?`,
		`jobs.d/2.toml:1: the header of a table is malformed`,
		`jobs.d/2.toml:4: jobs.twice: is defined in jobs.d/1.toml already, on line 11`,
		`jobs.d/3.toml:1: jobs.lonely: has no schedule; set schedule = "0 2 * * *"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("load =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// T07: what is not UTF-8 with whole line ends is refused by name; a byte order mark and CRLF are
// common and harmless.
func TestLoad_Encodings(t *testing.T) {
	const good = "namespace = \"fleet\"\n[jobs.a]\nschedule = \"* * * * *\"\ncommand = [\"true\"]\n"
	utf16 := []byte("\xff\xfe")
	for _, r := range good {
		utf16 = append(utf16, byte(r), 0)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"byte order mark":      {"\xef\xbb\xbf" + good, ""},
		"CRLF":                 {strings.ReplaceAll(good, "\n", "\r\n"), ""},
		"no end of line":       {strings.TrimSpace(good), ""},
		"two byte order marks": {"\xef\xbb\xbf\xef\xbb\xbf" + good, "rota.toml:1: begins with two byte order marks; save the file as UTF-8 without one"},
		"UTF-16":               {string(utf16), "rota.toml:1: is UTF-16; save the file as UTF-8"},
		"Latin-1":              {good + "# caf\xe9\n", "rota.toml:5: holds a byte that is not UTF-8; save the file as UTF-8; it may be Latin-1"},
		"NUL":                  {good + "\n\x00", "rota.toml:6: holds a NUL byte; save the file as UTF-8"},
		"bare CR":              {"a = 1\rb = 2\n", "rota.toml:1: holds a carriage return that does not end a line; end lines with LF or CRLF"},
		"control character":    {"# \x01\n", "rota.toml:1: holds a control character"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, map[string]string{"rota.toml": tc.text})
			if tc.want == "" {
				if c, err := load(path, plain()); err != nil || c.Namespace != "fleet" || len(c.Jobs) != 1 {
					t.Errorf("load = %v, %v, want its job", c, err)
				}
				return
			}
			if got := faultsOf(t, path, plain()); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("load = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLoad_HostName(t *testing.T) {
	named := func(name string, err error) environment {
		return environment{
			hostname: func() (string, error) { return name, err },
			getenv:   func(string) string { return "" },
			lease:    readLease,
		}
	}
	path := write(t, map[string]string{"rota.toml": ""})
	if c, err := load(path, named("web-1.example.org", nil)); err != nil || c.Host.Name != "web-1.example.org" {
		t.Errorf("load = %v, %v, want the machine's name", c, err)
	}
	for _, tc := range []struct {
		env  environment
		want string
	}{
		{named("web_1 ", nil), `rota.toml: host.name: the machine's name cannot be the host's: "web_1 " holds other characters than A-Z a-z 0-9 . _ -; set host.name`},
		{named("", nil), `rota.toml: host.name: the machine's name cannot be the host's: a name may not be empty; set host.name`},
		{named(strings.Repeat("x", 65), nil), `rota.toml: host.name: the machine's name cannot be the host's: "` + strings.Repeat("x", 60) + `"… has 65 characters, a name at most 64; set host.name`},
		{named("", errors.New("uname failed")), `rota.toml: host.name: the machine's name is not known: uname failed; set host.name`},
	} {
		if got := faultsOf(t, path, tc.env); !slices.Equal(got, []string{tc.want}) {
			t.Errorf("load = %q, want %q", got, tc.want)
		}
	}
}

// R19: the ttl that a refusal names will do, and a millisecond less will not.
func TestLoad_SmallestTTL(t *testing.T) {
	for _, rest := range []string{
		"",
		"renew_every = \"1ms\"\nloss_grace = \"0s\"\n",
		"renew_every = \"333ms\"\nloss_grace = \"7s\"\n",
		"renew_every = \"7h\"\n",
	} {
		lease := "[redis]\nop_timeout = \"100ms\"\n[lease]\n" + rest
		path := write(t, map[string]string{"rota.toml": lease + `ttl = "1ms"`})
		refusal := faultsOf(t, path, plain())[0]
		smallest := refusal[strings.LastIndex(refusal, " ")+1:]
		c := mustLoad(t, lease+`ttl = "`+smallest+`"`)
		v := c.Lease
		if need := 3*v.RenewEvery + v.LossGrace + c.Redis.OpTimeout + v.TTL*6/100 + 50*time.Millisecond; v.TTL < need {
			t.Errorf("%q: ttl %s was taken, the rule asks for %s", rest, v.TTL, need)
		}
		path = write(t, map[string]string{"rota.toml": lease + `ttl = "` + (v.TTL - time.Millisecond).String() + `"`})
		if got := faultsOf(t, path, plain()); len(got) != 1 || !strings.Contains(got[0], "lease.ttl: ") {
			t.Errorf("%q: load with %s = %q, want lease.ttl refused", rest, v.TTL-time.Millisecond, got)
		}
	}
}

// What is valid and often not meant is said and taken. P and S: the schedule's own warnings.
func TestLoad_Warnings(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"S45 a zone that is fixed": {
			"timezone = \"EST\"\n[jobs.a]\nschedule = \"0 2 * * *\"\ncommand = [\"true\"]\n[jobs.b]\nschedule = \"0 2 * * *\"\ncommand = [\"true\"]\n",
			`rota.toml:1: timezone: "EST" is fixed at -5 hours`,
		},
		"P17 both day fields": {
			"[jobs.a]\nschedule = \"0 0 13 * 5\"\ncommand = [\"true\"]\n",
			`rota.toml:2: jobs.a.schedule: "0 0 13 * 5": both day fields are restricted`,
		},
		"T10 an escape of crontab in argv": {
			"[jobs.a]\nschedule = \"* * * * *\"\ncommand = [\"date\", '+\\%Y']\n",
			`rota.toml:3: jobs.a.command: \% reaches the program as it stands`,
		},
		"T10 an escape of crontab in a line of shell": {
			"[jobs.a]\nschedule = \"* * * * *\"\nshell = 'date +\\%Y'\n",
			`rota.toml:3: jobs.a.shell: \% reaches the program as it stands`,
		},
		"names that differ only in case": {
			"[jobs.backup]\nschedule = \"@daily\"\nshell = 'true'\n[jobs.Backup]\nschedule = \"@daily\"\nshell = 'true'\n",
			`rota.toml:1: jobs.backup: differs only in case from Backup in `,
		},
		"a bound on runs that never overlap": {
			"[jobs.a]\nschedule = \"@daily\"\nshell = 'true'\nmax_parallel = 2\n",
			`rota.toml:4: jobs.a.max_parallel: says nothing without overlap = "allow"`,
		},
		"a lock that does not exclude": {
			"[jobs.a]\nschedule = \"@daily\"\nshell = 'true'\nlock = \"db\"\noverlap = \"allow\"\n",
			`rota.toml:4: jobs.a.lock: excludes nothing under overlap = "allow"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, tc.text)
			if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], tc.want) {
				t.Errorf("Warnings = %q, want one with %q in it", c.Warnings, tc.want)
			}
		})
	}
}

// P: what cron dialects share is taken.
func TestLoad_SchedulesTaken(t *testing.T) {
	for _, spec := range []string{
		"30 6 * * *", "0 30 6 * * *", "*/7 * * * *", "0 0 * * 7", "0 0 * * 5-7", "0 0 ? * 1", "05 03 * * *",
		"@daily ", "@every 1d", "0 0 31 * *", "0 0 * * sun", "TZ=Europe/Rome\t0 2 * * *",
	} {
		path := write(t, map[string]string{"rota.toml": "[jobs.a]\nschedule = '" + spec + "'\ncommand = ['true']\n"})
		if _, err := load(path, plain()); err != nil {
			t.Errorf("load of schedule %q = %v, want it taken", spec, err)
		}
	}
}

func TestLoad_AsTheDaemonDoes(t *testing.T) {
	path := write(t, map[string]string{
		"rota.toml":     "include = ['jobs.d/*.toml']\n[host]\nname = 'web-1'\n[redis]\npassword_file = 'pw'\n",
		"jobs.d/a.toml": "[jobs.a]\nschedule = '@daily'\nshell = 'true'\n",
		"secrets/pw":    "x\n",
	})
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(filepath.Dir(path), "secrets"))
	t.Chdir(filepath.Dir(path))
	c, err := Load("rota.toml")
	if err != nil {
		t.Fatal(err)
	}
	if c.Path != path || !slices.Equal(c.Files, []string{"rota.toml", "jobs.d/a.toml"}) {
		t.Errorf("Path = %q, Files = %q, want %q and the files as they were named", c.Path, c.Files, path)
	}
	if len(c.Jobs) != 1 || c.Redis.Password.Reveal() != "x" {
		t.Errorf("Load = %+v, want its job and its password", c)
	}
}

func TestFind_FlagThenEnvironmentThenDefault(t *testing.T) {
	t.Setenv("ROTA_CONFIG", "")
	if got := Find(""); got != "/etc/rota/rota.toml" {
		t.Errorf("Find(%q) = %q, want the default", "", got)
	}
	t.Setenv("ROTA_CONFIG", "/env.toml")
	if got := Find(""); got != "/env.toml" {
		t.Errorf("Find(%q) = %q, want $ROTA_CONFIG", "", got)
	}
	if got := Find("/flag.toml"); got != "/flag.toml" {
		t.Errorf("Find(%q) = %q, want the flag's value", "/flag.toml", got)
	}
}

// Every default is a value that its own key takes, so that it can be written down.
func TestSettings_DefaultsAreValid(t *testing.T) {
	l := newLoader(plain())
	var walk func(scope string, keys []key)
	walk = func(scope string, keys []key) {
		for _, k := range keys {
			if k.def != nil {
				rep := new(report)
				at := place{rep: rep, src: &source{}, path: []string{scope, k.name}}
				if !k.set(at, k.def) || len(rep.faults) > 0 {
					t.Errorf("%s.%s refuses its default %v: %v", scope, k.name, k.def, rep.faults)
				}
			}
			walk(k.name, k.keys)
		}
	}
	walk("", l.settings())
}

// later.go may name only what there is, or a key that was renamed would be taken in silence.
func TestLater_NamesKeysThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, k := range newLoader(plain()).settings() {
		known[k.name] = true
		for _, sub := range k.keys {
			known[k.name+"."+sub.name] = true
		}
	}
	for _, name := range later() {
		name, _, _ := strings.Cut(name, "=")
		if !known[name] {
			t.Errorf("later() has %q, which is no key; there are %q", name, slices.Sorted(maps.Keys(known)))
		}
	}
}
