package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// none is the exit code of a run that nothing was started for, or that is no program.
const none = -1

// An ending is a job that runs once, and how.
type ending struct {
	name    string // of the job, and of the case that it stands for
	lines   string // of its table, as TOML
	do      string // what befalls it once it runs: "cancel", "unlock", or "stop" when all others have ended; "": nothing
	outcome string
	code    int
	reason  string
	output  string        // what it printed; "*": whatever
	least   time.Duration // that it took; what it may take is some more, if nothing befell it
}

// slack is what a loaded machine may add to any time below.
const slack = 5 * time.Second

// endings are all that a command can come to, each with its value in the ledger.
func endings(t *testing.T, dir string) []ending {
	t.Helper()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "#!/bin/sh\n", 0o644)
	crlf := file("crlf", "#!/bin/sh\r\nexit 0\r\n", 0o755)
	lost := file("lost", "#!/no/such/python\n", 0o755)
	bare := file("bare", "exit 0\n", 0o755)
	start := func(program, why string, args ...any) string {
		return fmt.Sprintf("start %q: ", program) + fmt.Sprintf(why, args...)
	}
	const ready = `echo ready; `
	env := file("env", "A='from the file'\n", 0o600)
	surroundings := fmt.Sprintf("shell = \"\"\"echo $(id -u) $HOME, $(umask), $(nice), $A\"\"\"\nenv_file = %q\numask = \"0027\"\nnice = 19\n", env)
	self, err := user.LookupId(fmt.Sprint(os.Geteuid()))
	if os.Geteuid() == 0 { // who alone may be another user
		self, err = user.Lookup("nobody")
		surroundings += "user = \"nobody\"\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	return []ending{
		{"surroundings", surroundings, "", "succeeded", 0, "", fmt.Sprintf("%s %s, 0027, 19, from the file\n", self.Uid, self.HomeDir), 0},

		{"exit-0", `shell = "exit 0"`, "", "succeeded", 0, "", "", 0},
		{"exit-3", `shell = "exit 3"`, "", "failed", 3, "exit code 3", "", 0},
		{"exit-255", `shell = "exit 255"`, "", "failed", 255, "exit code 255", "", 0},
		{"exit-256", `shell = "exit 256"`, "", "succeeded", 0, "", "", 0},
		{"a-code-that-is-success", "shell = \"exit 3\"\nsuccess_codes = [3]", "", "succeeded", 3, "", "", 0},
		{"signal", `shell = "kill -TERM $$"`, "", "failed", 143, "signal terminated (SIGTERM)", "", 0},

		{"not-found", `command = ["/no/such"]`, "", "failed", none, start("/no/such", `"/no/such" not found`), "", 0},
		{
			"not-in-path", "command = [\"no-such\"]\nenv = { PATH = \"/bin\" }", "", "failed", none,
			start("no-such", `not found in PATH "/bin"`), "", 0,
		},
		{"not-executable", fmt.Sprintf("command = [%q]", plain), "", "failed", none, start(plain, `%q is not executable (mode 0644)`, plain), "", 0},
		{"a-directory", fmt.Sprintf("command = [%q]", dir), "", "failed", none, start(dir, `%q is a directory`, dir), "", 0},
		{
			"interpreter-in-crlf", fmt.Sprintf("command = [%q]", crlf), "", "failed", none,
			start(crlf, `bad interpreter line in %q: "/bin/sh\r" does not exist, the line ends in CR LF; save the file with LF line ends`, crlf), "", 0,
		},
		{
			"interpreter-missing", fmt.Sprintf("command = [%q]", lost), "", "failed", none,
			start(lost, `bad interpreter line in %q: "/no/such/python" does not exist`, lost), "", 0,
		},
		{
			"no-interpreter", fmt.Sprintf("command = [%q]", bare), "", "failed", none,
			start(bare, `exec format error: %q has no #! line; begin it with #!/bin/sh, or run it through shell`, bare), "", 0,
		},
		{"bad-directory", "command = [\"true\"]\ndir = \"/no/such\"", "", "failed", none, start("true", `dir "/no/such" does not exist`), "", 0},
		{
			"argument-list-too-long", fmt.Sprintf("command = [\"true\", %q]", strings.Repeat("x", 200<<10)), "", "failed", none,
			start("true", "argument list too long: "), "", 0,
		},

		{"stdin", `command = ["cat"]`, "", "succeeded", 0, "", "", 0},
		{
			"no-shell", "command = [\"printf\", \"%s|\", \"$HOME\", \"*\", \"a b\", \"; id\", \"`id`\", \"100%\"]", "", "succeeded", 0, "",
			"$HOME|*|a b|; id|`id`|100%|", 0,
		},

		{"timeout-of-a-shell", "command = [\"sh\", \"-c\", \"sleep 300; true\"]\ntimeout = \"1s\"", "", "timed_out", 143, "timed out after 1s", "", time.Second},
		{
			"timeout-and-exit-0", "shell = '''trap 'exit 0' TERM; while :; do sleep 0.05; done'''\ntimeout = \"1s\"", "", "timed_out", 0,
			"timed out after 1s", "*", time.Second,
		},
		{
			// Two seconds and three more: longer than the lease, which must be renewed under it.
			"timeout-that-is-ignored", "command = [\"sh\", \"-c\", \"trap '' TERM; sleep 300\"]\ntimeout = \"2s\"\nkill_grace = \"3s\"", "",
			"timed_out", 137, "timed out after 2s; ended by SIGKILL", "", 5 * time.Second,
		},
		{"leader-exits", "command = [\"sh\", \"-c\", \"sleep 300 >/dev/null 2>&1 & exit 0\"]", "", "succeeded", 0, "", "", 0},
		{"grandchild-holds-the-pipe", `shell = "(setsid sleep 300 &); exit 0"`, "", "succeeded", 0, "", "", 0},
		{"cancelled", `shell = "` + ready + `exec sleep 300"`, "cancel", "cancelled", 143, "cancelled by tests", "*", 0},
		{"lost", `shell = "` + ready + `exec sleep 300"`, "unlock", "lost", 143, "lease lost: ", "*", 0},
		{
			// It ignores SIGTERM, which comes at the same moment.
			"interrupted", `shell = "trap '' TERM; ` + ready + `exec sleep 300"`, "stop", "interrupted", 137,
			"interrupted: the daemon was told to stop at once; ended by SIGKILL", "*", 0,
		},
	}
}

// Whatever a command comes to is in the ledger with its own outcome, code and reason; nothing of it lives
// on, and its lock is free again. Cases E02, E04, E05, E10, E12, E13, E17, E20 and E21.
func TestFleet_Endings(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	f.host = "max_runs = 100\n"
	all := endings(t, f.dir)
	table := ""
	for _, e := range all {
		table += fmt.Sprintf("[jobs.%s]\nschedule = \"@yearly\"\n%s\n", e.name, e.lines)
	}
	d := f.start("a", s.Addr(), table)
	f.awaitHosts(1)

	asked := make([]ledger.Request, len(all))
	for i, e := range all {
		id, err := f.led.Ask(t.Context(), ledger.Request{Job: e.name, Who: "tests"})
		if err != nil {
			t.Fatal(err)
		}
		asked[i] = ledger.Request{ID: id, Job: e.name}
	}
	held := f.watchLock("timeout-that-is-ignored")
	entry := func(i int) (ledger.Entry, error) {
		e, ok, err := f.led.Answered(t.Context(), asked[i])
		if err == nil && !ok {
			err = fmt.Errorf("%s has not begun", all[i].name)
		}
		return e, err
	}
	for i, want := range all {
		if want.do == "" {
			continue
		}
		eventually(t, 30*time.Second, func() error {
			e, err := entry(i)
			if err == nil && !strings.Contains(d.log.String(), e.Run+`","token":`) {
				err = fmt.Errorf("%s has not begun", want.name)
			}
			return err
		})
		e, err := entry(i)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, func() error {
			if len(of(e.Run)) == 0 {
				return fmt.Errorf("%s has no process yet", want.name)
			}
			return nil
		})
		switch want.do {
		case "cancel":
			if err := f.led.Cancel(t.Context(), e.Run, ledger.By{Who: "tests"}); err != nil {
				t.Fatal(err)
			}
			f.led.Urge(t.Context(), e.Run)
		case "unlock":
			s.Do("DEL", "{fleet}:lock:"+want.name)
		}
	}
	check := func(i int) {
		want := all[i]
		var got ledger.Entry
		eventually(t, 30*time.Second, func() (err error) {
			if got, err = entry(i); err == nil && got.Outcome == ledger.OutcomeRunning {
				err = fmt.Errorf("%s goes on", want.name)
			}
			return err
		})
		code := none
		if got.ExitCode != nil {
			code = *got.ExitCode
		}
		reason := got.Reason
		if strings.HasSuffix(want.reason, ": ") && strings.HasPrefix(reason, want.reason) {
			reason = want.reason
		}
		if got.Outcome != want.outcome || code != want.code || reason != want.reason {
			t.Errorf("%s: %s, code %d, %q; want %s, %d, %q", want.name, got.Outcome, code, got.Reason, want.outcome, want.code, want.reason)
		}
		if started := strings.HasPrefix(want.reason, "start "); started != got.Started.IsZero() {
			t.Errorf("%s: started %v", want.name, got.Started)
		} else if took := got.Ended.Sub(got.Started); !started && want.do == "" && (took < want.least-100*time.Millisecond || took > want.least+slack) {
			t.Errorf("%s took %v, want %v and little more", want.name, took, want.least)
		}
		if output, err := f.led.Output(t.Context(), got.Run); want.output != "*" && (err != nil || string(output) != want.output) {
			t.Errorf("%s printed %q, %v, want %q", want.name, output, err, want.output)
		}
		if pids := of(got.Run); len(pids) > 0 {
			t.Errorf("%s: processes %v live on", want.name, pids)
		}
		if n := s.Do("EXISTS", "{fleet}:lock:"+want.name); fmt.Sprint(n) != "0" {
			t.Errorf("%s: its lock is still held", want.name)
		}
	}
	for i, want := range all {
		if want.do != "stop" {
			check(i)
		}
	}
	// All that was seen of that lock while the run took its time: it was always held, by one token.
	if tokens, least := held(); len(tokens) != 1 || least <= 0 {
		t.Errorf("the lock of a run that ignores its end had the values %q, and at least %v to live; want one, and some", tokens, least)
	}
	d.signal(syscall.SIGTERM)
	eventually(t, 10*time.Second, func() error {
		if d.log.count("drain began") == 0 { // two signals at once may be one
			return fmt.Errorf("the daemon does not drain")
		}
		return nil
	})
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	for i, want := range all {
		if want.do == "stop" {
			check(i)
		}
	}
}

// watchLock looks at a lock while it is there. What it returns waits until it is gone, and tells what values
// it had and the least time it had to live.
func (f *fleet) watchLock(name string) (seen func() (values []string, least time.Duration)) {
	f.t.Helper()
	key := f.led.LeaseKey(name)
	var values []string
	least := time.Hour
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; f.t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
			value, _ := f.client.Get(f.t.Context(), key).Result()
			left, err := f.client.PTTL(f.t.Context(), key).Result()
			switch {
			case value == "" && len(values) > 0:
				return
			case value == "":
				continue
			case !slices.Contains(values, value):
				values = append(values, value)
			}
			if err == nil && left != -2 { // it went away between the two
				least = min(least, left)
			}
		}
	}()
	return func() ([]string, time.Duration) {
		<-done
		return values, least
	}
}

// Case E13: a job that cannot start holds no lock, and each of its ticks is tried anew.
func TestFleet_StartFailuresAreTriedAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	dir := filepath.Join(f.dir, "later")
	d := f.start("a", s.Addr(), fmt.Sprintf("[jobs.work]\nschedule = \"* * * * * *\"\ncommand = [\"true\"]\ndir = %q\n", dir))
	outcomes := func(want string, n int) (all []ledger.Entry) {
		eventually(t, 30*time.Second, func() error {
			all = slices.DeleteFunc(f.history("work"), func(e ledger.Entry) bool { return e.Outcome != want })
			if len(all) < n {
				return fmt.Errorf("%d runs are %s, want %d", len(all), want, n)
			}
			return nil
		})
		return all
	}
	failed := outcomes("failed", 3)
	for i, e := range failed {
		if want := fmt.Sprintf(`start "true": dir %q does not exist`, dir); e.Reason != want || e.ExitCode != nil {
			t.Errorf("a run failed with %q, code %v; want %q, none", e.Reason, e.ExitCode, want)
		}
		if i > 0 && failed[i-1].Tick.Sub(e.Tick) != time.Second {
			t.Errorf("after the tick %s the next one that ran is %s, want each", e.Tick, failed[i-1].Tick)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	outcomes("succeeded", 1)
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

// Case E23: what jobs print at once is in the log line by line, none mixed with another, each with its
// job and run.
func TestFleet_LinesOfManyRuns(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	names := []string{"a", "b", "c"}
	table := ""
	for _, name := range names {
		table += fmt.Sprintf("[jobs.%s]\nschedule = \"@yearly\"\nshell = \"yes %s | head -n 10000\"\n", name, strings.Repeat(name, 200))
	}
	d := f.start("a", s.Addr(), table)
	f.awaitHosts(1)
	runs := map[string]string{} // by job
	for _, name := range names {
		if _, err := f.led.Ask(t.Context(), ledger.Request{Job: name, Who: "tests"}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 60*time.Second, func() error {
		for _, name := range names {
			h := f.history(name)
			if len(h) == 0 || h[0].Outcome != "succeeded" {
				return fmt.Errorf("%s has not succeeded", name)
			}
			runs[name] = h[0].Run
		}
		return nil
	})
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	lines := map[string]int{}
	for record := range strings.Lines(d.log.String()) {
		var r struct{ Msg, Job, Run, Line string }
		if err := json.Unmarshal([]byte(record), &r); err != nil {
			t.Fatalf("%.300q: %v", record, err)
		}
		if r.Msg != "output" {
			continue
		}
		if r.Line != strings.Repeat(r.Job, 200) || r.Run != runs[r.Job] {
			t.Fatalf("%.300q is no line of a run", record)
		}
		lines[r.Job]++
	}
	for _, name := range names {
		if lines[name] != 10_000 {
			t.Errorf("%d lines of %s, want 10000", lines[name], name)
		}
	}
}
