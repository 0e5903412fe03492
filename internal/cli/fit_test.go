package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"rota/internal/config"
	"rota/scheduler/ledger"
)

// busy is a fleet as status has to show it: tables of some 130 and 70 characters.
func busy(t *testing.T) (*view, *session) {
	t.Helper()
	now := noon.Add(-20*time.Hour - 17*time.Second)
	host := ledger.Host{Name: "db-17.example", Version: "0.3.1-12-g0a1b2c3", Table: "", ClockOffset: -3 * time.Millisecond, Running: 1, MaxRuns: 16}
	v := &view{Namespace: "rota", Now: now, Jobs: []jobView{}}
	v.addHosts([]ledger.Host{host}, nil)
	v.Hosts[0].Table, v.Table = "9f3c2a1b0d4e", "9f3c2a1b0d4e"
	for _, name := range []string{"nightly-report", "gc"} {
		j := minutely(t)
		j.Name = name
		tick := now.Add(-90 * time.Second)
		e := ledger.Entry{
			Job: name, Tick: tick, Won: tick.Add(4 * time.Millisecond), Run: "run", Kind: ledger.Misfire, Host: host.Name,
			Token: 1796009809854873, Outcome: ledger.OutcomeRunning,
		}
		last := e
		last.Outcome, last.Ended, last.Token, last.Run = "succeeded", tick.Add(-time.Second), e.Token-1, "before"
		v.Jobs = append(v.Jobs, viewJob(ofFleet(j), &ledger.JobState{Job: name, Running: true}, []ledger.Entry{e, last}, 1, now))
	}
	return v, &session{cfg: &config.Config{Path: "rota.toml"}}
}

// shown is the view on a terminal of so many columns, 0: on none.
func shown(t *testing.T, columns int, colour bool) string {
	t.Helper()
	v, s := busy(t)
	var text bytes.Buffer
	v.writeAll(&text, s, columns, colour)
	return text.String()
}

// widest is how many characters the longest line has.
func widest(text string) (most int) {
	for line := range strings.Lines(text) {
		most = max(most, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
	}
	return most
}

func TestStatus_FitsTheTerminal(t *testing.T) {
	whole := widest(shown(t, 0, false))
	if whole <= 100 {
		t.Fatalf("the view has %d columns by itself: the test shows nothing", whole)
	}
	for _, c := range []struct {
		columns    int
		jobs, host string // the headers
	}{
		{0, "JOB STATE NEXT LAST HOLDER TOKEN LAG", "HOST STATE VERSION TABLE CLOCK RUNNING"},
		{whole, "JOB STATE NEXT LAST HOLDER TOKEN LAG", "HOST STATE VERSION TABLE CLOCK RUNNING"},
		{whole - 1, "JOB STATE NEXT LAST HOLDER LAG", "HOST STATE VERSION TABLE CLOCK RUNNING"},
		{80, "JOB STATE NEXT LAST HOLDER LAG", "HOST STATE VERSION TABLE CLOCK RUNNING"},
		{60, "JOB STATE NEXT LAST", "HOST STATE VERSION CLOCK RUNNING"},
		{50, "JOB STATE NEXT LAST", "HOST STATE CLOCK RUNNING"},
		{10, "JOB STATE NEXT LAST", "HOST STATE RUNNING"}, // there is a line for each all the same
	} {
		t.Run(fmt.Sprint(c.columns), func(t *testing.T) {
			text := shown(t, c.columns, false)
			tables := strings.Split(text, "\n\n")
			for i, want := range []string{c.jobs, c.host} {
				header, _, _ := strings.Cut(tables[i], "\n")
				if got := strings.Join(strings.Fields(header), " "); got != want {
					t.Errorf("table %d has the columns %q, want %q", i, got, want)
				}
			}
			if n := widest(text); c.columns >= 50 && n > c.columns {
				t.Errorf("a line has %d characters:\n%s", n, text)
			}
			for _, must := range []string{"nightly-report", "running", "db-17.example"} {
				if !strings.Contains(text, must) {
					t.Errorf("%q is not in\n%s", must, text)
				}
			}
		})
	}
}

// A word's colour takes no room.
func TestStatus_FitsWithColours(t *testing.T) {
	for _, columns := range []int{0, 80, 60} {
		bare, _, _ := strings.Cut(shown(t, columns, false), "\n")
		coloured, _, _ := strings.Cut(shown(t, columns, true), "\n")
		if got, want := len(strings.Fields(coloured)), len(strings.Fields(bare)); got != want {
			t.Errorf("in %d columns: %d of them with colours, %d without", columns, got, want)
		}
	}
}

// terminalOf opens a terminal of that size.
func terminalOf(t *testing.T, columns uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return slave
}

// Only a terminal has columns: what goes to a pipe or a file is never cut, wherever the command was typed.
func TestApp_ColumnsAreTheTerminals(t *testing.T) {
	env := func(name string) string { return map[string]string{"COLUMNS": "40", "TERM": "xterm"}[name] }
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for name, c := range map[string]struct {
		out  *os.File
		want int
	}{"a terminal": {terminalOf(t, 80), 80}, "one that does not say": {terminalOf(t, 0), 0}, "a pipe": {w, 0}, "a file": {file, 0}} {
		if got := (&app{stdout: c.out, env: env}).columns(); got != c.want {
			t.Errorf("columns() of %s = %d, want %d", name, got, c.want)
		}
	}
	if got := (&app{stdout: &bytes.Buffer{}, env: env}).columns(); got != 0 {
		t.Errorf("columns() of a buffer = %d, want 0", got)
	}
}
