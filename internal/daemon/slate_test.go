package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The names in env_pass belong to the jobs: they change with the table, and ask for no restart. Of the
// daemon's other variables nothing reaches a job.
func TestRun_EnvPassFollowsAReload(t *testing.T) {
	t.Setenv("ROTA_TEST_A", "never") // a name of Rota's
	t.Setenv("TEST_A", "a")
	t.Setenv("TEST_B", "b")
	r := newRunning(t)
	const job = `[jobs.show]
schedule = "* * * * * *"
shell = "echo \"sees $TEST_A,$TEST_B,$ROTA_TEST_A.\""
[host]
env_pass = [%s]
`
	r.write(fmt.Sprintf(job, `"TEST_A", "TEST_UNSET"`))
	r.start()
	r.await("sees a,,.", 1)
	r.write(fmt.Sprintf(job, `"TEST_B"`))
	r.reload <- syscall.SIGHUP
	r.await("table reloaded", 1)
	r.await("sees ,b,.", 1)
	if r.log.has("reload left settings as they were") {
		t.Error("the log asks for a restart, want none: the new names are in force")
	}
	r.stop()
}

// A secret goes from an env_file to the run, and nowhere else; a new one is taken by the next run, and a
// file that has become wrong fails that run alone.
func TestRun_EnvFileShowsNowhere(t *testing.T) {
	r := newRunning(t)
	file := filepath.Join(filepath.Dir(r.path), "job.env")
	write := func(text string) {
		t.Helper()
		next := file + ".next"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	write("TOKEN=3cr3t-1\n")
	r.write(fmt.Sprintf(`[jobs.send]
schedule = "* * * * * *"
shell = "case $TOKEN in *3cr3t-1) echo has the first;; *3cr3t-2) echo has the second;; esac"
env_file = %q
`, file))
	// The table, which has the patterns of the secrets, is not in the log either.
	r.start()
	r.await("has the first", 1)
	write("TOKEN=3cr3t-1\n3cr3t-2\n")
	r.await("env_file", 1)
	write("TOKEN='3cr3t-2'\n")
	r.await("has the second", 1)
	if r.log.has("3cr3t") {
		t.Errorf("a secret is in the log:\n%s", &r.log.b)
	}
	if want := "line 2: it has no"; !r.log.has(want) {
		t.Errorf("the log does not say %q", want)
	}
	r.stop()
}
