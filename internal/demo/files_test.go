package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"rota/internal/config"
	"rota/scheduler"
)

func pipe(t *testing.T) (r, w *os.File, err error) {
	t.Helper()
	r, w, err = os.Pipe()
	if err == nil {
		t.Cleanup(func() { r.Close(); w.Close() })
	}
	return r, w, err
}

// Every config must load, whatever the folder is called, and all must have one table.
func TestWriteConfigs_AreConfigs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a \"quoted\"\\ \t\x7f földer")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	witness := filepath.Join(dir, "witness")
	names := hostNames(3)
	paths, err := writeConfigs(dir, "127.0.0.1:1", names, witness, 120)
	if err != nil {
		t.Fatalf("writeConfigs: %v", err)
	}
	var tables []string
	for i, path := range paths {
		c, err := config.Load(path)
		if err != nil {
			t.Fatalf("Load(%s): %v", path, err)
		}
		var jobs []string
		for _, j := range c.Jobs {
			jobs = append(jobs, j.Name)
			if j.Env["WITNESS"] != witness {
				t.Errorf("%s: WITNESS = %q, want %q", j.Name, j.Env["WITNESS"], witness)
			}
		}
		if !slices.Equal(jobs, jobNames()) || c.Host.Name != names[i] || c.History.Keep != 120 || c.HTTP.Listen != "" {
			t.Errorf("%s: jobs %q, host %q, keep %d, listen %q", path, jobs, c.Host.Name, c.History.Keep, c.HTTP.Listen)
		}
		tables = append(tables, c.TableHash())
	}
	if tables[0] != tables[1] || tables[1] != tables[2] {
		t.Errorf("tables = %q, want one", tables)
	}
}

// The numbers carry the story: the kill comes while the slow job runs, the lease that it leaves
// outlives two ticks and not the third, and the shortest demo still shows the takeover.
func TestTable_NumbersFit(t *testing.T) {
	if least := scheduler.LeastTTL(renewEvery, lossGrace, opTimeout); leaseTTL < least {
		t.Errorf("leaseTTL = %s, want %s at least", leaseTTL, least)
	}
	if killAfter+pulse >= slowTime {
		t.Errorf("the kill comes %s after the start of a run of %s, want before its end", killAfter+pulse, slowTime)
	}
	// A run of less than two renewals is renewed once at most.
	if slowTime >= 2*renewEvery || leaseTTL <= 2*time.Second || leaseTTL+renewEvery >= 3*time.Second {
		t.Errorf("a lease of %s, renewed after %s, outlives not exactly two ticks after its run of %s", leaseTTL, renewEvery, slowTime)
	}
	if n := int(LeastFor * 2 / 5 / time.Second); time.Duration(n+3)*time.Second > LeastFor {
		t.Errorf("a kill at tick %d leaves no time for a takeover within %s", n, LeastFor)
	}
}

func TestDueTicks_AreThoseOfTheWindow(t *testing.T) {
	paths, err := writeConfigs(t.TempDir(), "127.0.0.1:1", hostNames(2), "/w", 100)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	due := dueTicks(c.Table(t.Context(), nil), at(1), at(3).Add(500*time.Millisecond))
	want := []tickOf{{quickJob, at(2).Unix()}, {slowJob, at(2).Unix()}, {quickJob, at(3).Unix()}, {slowJob, at(3).Unix()}}
	if !slices.Equal(due, want) {
		t.Errorf("dueTicks(1 s, 3.5 s) = %v, want %v: after the first instant, up to the second", due, want)
	}
	if got := lastDue(due, []string{slowJob, "other"}); !got[0].Equal(at(3)) || !got[1].IsZero() {
		t.Errorf("lastDue = %v, want tick 3, and zero for a job without ticks", got)
	}
}

func TestReadWitness(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	if runs, illegible, err := readWitness(path); len(runs)+len(illegible) > 0 || err != nil {
		t.Errorf("readWitness of no file = %v, %q, %v, want nothing", runs, illegible, err)
	}
	text := "mail 2026-11-29T12:00:01Z 7 web-1\nmail 2026-11-29T12:00:01Z 7\n" +
		"mail noon 7 web-1\nmail 2026-11-29T12:00:01Z x web-1\nreport 2026-11-29T12:00:02Z 8 web-2"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, illegible, err := readWitness(path)
	if want := []testimony{wrote("mail", 1, "web-1", 7), wrote("report", 2, "web-2", 8)}; !slices.Equal(runs, want) || err != nil {
		t.Errorf("readWitness = %v, %v, want %v", runs, err, want)
	}
	if len(illegible) != 3 {
		t.Errorf("illegible = %q, want the three in the middle", illegible)
	}
	if _, _, err := readWitness(filepath.Dir(path)); err == nil {
		t.Error("readWitness of a folder: no error")
	}
}

func TestOptions_Check(t *testing.T) {
	good := Options{Exe: "/bin/true", View: os.Stderr, For: LeastFor, Hosts: MostHosts}
	for _, tc := range []struct {
		name   string
		change func(o *Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"no program", func(o *Options) { o.Exe = "" }, false},
		{"no view", func(o *Options) { o.View = nil }, false},
		{"too short", func(o *Options) { o.For-- }, false},
		{"too long", func(o *Options) { o.For = MostFor + 1 }, false},
		{"alone", func(o *Options) { o.Hosts = 1 }, false},
		{"too many", func(o *Options) { o.Hosts++ }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := good
			tc.change(&o)
			if err := o.check(); (err == nil) != tc.ok {
				t.Errorf("check(%+v) = %v, want ok = %s", o, err, strconv.FormatBool(tc.ok))
			}
		})
	}
}
