package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
)

// dryRun races as five shadow hosts beside the fleet until it has seen so many wins of a job, and
// returns its lines.
func (f *fleet) dryRun(config, job string, wins int) []byte {
	f.t.Helper()
	bin, err := rota()
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 90*time.Second)
	defer cancel()
	var stdout, stderr log
	cmd := exec.CommandContext(ctx, bin, "run", "--dry-run", "--hosts", "5", "--json", "-c", config)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	want := fmt.Sprintf(`"job":%q,`, job)
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		won := 0
		for line := range strings.Lines(stdout.String()) {
			if strings.Contains(line, `"event":"won"`) && strings.Contains(line, want) {
				won++
			}
		}
		if won >= wins || time.Since(begun) > 60*time.Second {
			break
		}
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := <-ended; err != nil {
		f.t.Fatalf("rota run --dry-run: %v\n%s", err, stderr.String())
	}
	return []byte(stdout.String())
}

// A shadow fleet beside a real one changes nothing in it: while that runs, each of its ticks runs
// once; when it is quiet, no key of it is written.
func TestFleet_ADryRunTouchesNothing(t *testing.T) {
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	jobs := fmt.Sprintf("[jobs.beat]\nschedule = \"* * * * * *\"\nshell = '''%s'''\n[jobs.both]\nschedule = \"* * * * * *\"\nscope = \"host\"\nlock = \"db\"\nshell = \"true\"\n", f.markCommand())
	var fleet []*daemon
	for _, name := range []string{"a", "b", "c"} {
		fleet = append(fleet, f.start(name, s.Addr(), jobs))
	}
	f.awaitHosts(3)
	eventually(t, 20*time.Second, func() error {
		for _, e := range f.history("beat") {
			if e.Outcome == "succeeded" {
				return nil
			}
		}
		return errors.New("no run of beat has ended")
	})
	config := filepath.Join(f.dir, "a.toml")
	first := len(f.marks())
	beside := f.dryRun(config, "beat", 4)
	for i, d := range fleet {
		if code := d.stop(); code != 0 {
			t.Errorf("daemon %d ended with %d, want 0", i, code)
		}
	}
	ran := map[time.Time]int{}
	for _, m := range f.marks()[first:] {
		ran[m.tick]++
		if m.host != "a" && m.host != "b" && m.host != "c" {
			t.Errorf("tick %s ran on %s, which is a shadow", m.tick, m.host)
		}
	}
	for tick, n := range ran {
		if n != 1 {
			t.Errorf("tick %s ran %d times beside a dry run, want once", tick, n)
		}
	}
	if len(ran) < 3 {
		t.Errorf("%d ticks ran beside the dry run, want 3 or more", len(ran))
	}
	hosts := map[string]int{}
	for _, e := range f.history("beat") {
		hosts[e.Host]++
	}
	for host := range hosts {
		if host != "a" && host != "b" && host != "c" && host != "" {
			t.Errorf("the fleet's history has host %q, which is a shadow", host)
		}
	}
	report := lastObject(t, beside)
	if n := len(report.Hosts); n != 5 {
		t.Errorf("the dry run had %d hosts, want 5", n)
	}
	for _, j := range report.Jobs {
		if j.Name == "beat" && (j.HoldsFrom != "ledger" || j.Won == 0) {
			t.Errorf("the dry run of beat: %+v, want wins, held as long as the fleet's runs took", j)
		}
	}

	// Quiet now: whatever a server handles is the dry run's.
	before := f.dumps()
	witness := len(f.marks())
	monitor := s.Monitor()
	f.dryRun(config, "beat", 2)
	commands := monitor.Commands()
	after := f.dumps()
	for key, was := range before {
		now, ok := after[key]
		switch {
		case !ok && was.ttl > 0 && was.ttl < 3*time.Minute: // it was about to expire
		case !ok:
			t.Errorf("key %s is gone", key)
		case now.dump != was.dump:
			t.Errorf("key %s has another value", key)
		case now.ttl > was.ttl:
			t.Errorf("key %s expires later, in %s instead of %s", key, now.ttl, was.ttl)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			t.Errorf("key %s is new", key)
		}
	}
	if n := len(f.marks()); n != witness {
		t.Errorf("the dry run ran %d jobs", n-witness)
	}
	reads, shadows := 0, 0
	for _, c := range commands {
		for _, arg := range c.Args[1:] {
			switch {
			case strings.HasPrefix(arg, "{fleet}~dry"):
				shadows++
			case !strings.HasPrefix(arg, "{fleet}"):
			case c.Lua || !readOnly[strings.ToUpper(c.Args[0])]:
				t.Errorf("the dry run sent %q, which is about a key of the fleet", c.Args)
			default:
				reads++
			}
		}
	}
	if reads == 0 || shadows < 50 {
		t.Errorf("%d reads of the fleet's keys and %d of the shadow's were seen: the test looks at nothing", reads, shadows)
	}
}

// readOnly are commands that write nothing (COMMAND INFO of Redis has the flag readonly for them).
var readOnly = map[string]bool{
	"GET": true, "MGET": true, "HGET": true, "HMGET": true, "HGETALL": true, "XRANGE": true, "XREVRANGE": true, "XLEN": true, "EXISTS": true,
	"PTTL": true, "DUMP": true, "KEYS": true,
}

type dumped struct {
	dump string
	ttl  time.Duration
}

// dumps are all keys of the fleet, as Redis would write them to disk.
func (f *fleet) dumps() map[string]dumped {
	f.t.Helper()
	ctx := f.t.Context()
	out := map[string]dumped{}
	for _, key := range f.client.Keys(ctx, "{fleet}:*").Val() {
		if dump, err := f.client.Dump(ctx, key).Result(); err == nil {
			out[key] = dumped{dump, f.client.PTTL(ctx, key).Val()}
		}
	}
	if len(out) < 5 {
		f.t.Fatalf("the fleet has %d keys: the test looks at nothing", len(out))
	}
	return out
}

type dryReport struct {
	Event string
	Hosts []struct{ Name string }
	Jobs  []struct {
		Name      string
		Won       int
		HoldsFrom string `json:"holds_from"`
	}
}

// lastObject reads the report of a dry run.
func lastObject(t *testing.T, lines []byte) dryReport {
	t.Helper()
	all := bytes.Split(bytes.TrimSpace(lines), []byte("\n"))
	var r dryReport
	if err := json.Unmarshal(all[len(all)-1], &r); err != nil || r.Event != "report" {
		t.Fatalf("the last line is no report: %v\n%s", err, all[len(all)-1])
	}
	return r
}
