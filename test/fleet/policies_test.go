package fleet

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// The daemon of a run is killed with SIGKILL: another host runs the tick again when the lease has
// ended, within ttl + 1 s, once, under a larger token; and the tick after it runs as ever.
func TestFleet_RerunAfterAKill(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	once := filepath.Join(f.dir, "once")
	table := fmt.Sprintf(`[jobs.work]
schedule = "*/10 * * * * *"
on_crash = "rerun"
shell = '''%s
mkdir %s || exit 0
exec sleep 60'''
`, f.markCommand(), once)
	daemons := map[string]*daemon{}
	for _, name := range []string{"a", "b", "c"} {
		daemons[name] = f.start(name, s.Addr(), table)
	}
	f.awaitHosts(3)
	marks := func(n int, what string) []mark {
		t.Helper()
		eventually(t, 25*time.Second, func() error {
			if got := len(f.marks()); got < n {
				return fmt.Errorf("%s: %d runs", what, got)
			}
			return nil
		})
		return f.marks()
	}
	first := marks(1, "no run began")[0]
	time.Sleep(500 * time.Millisecond)
	daemons[first.host].signal(syscall.SIGKILL)
	killed := time.Now()
	<-daemons[first.host].done
	again := marks(2, "the tick was not run again")[1]
	if !again.tick.Equal(first.tick) || again.host == first.host || again.token <= first.token {
		t.Errorf("after run %+v came %+v, want the same tick on another host under a larger token", first, again)
	}
	for _, m := range marks(3, "the next tick did not run")[2:] {
		if m.tick.Equal(first.tick) || m.token <= again.token {
			t.Errorf("then came run %+v, want newer ticks and larger tokens", m)
		}
	}
	reruns := 0
	for _, e := range f.history("work") {
		switch {
		case e.Run == again.run:
			reruns++
			if after := e.Won.Sub(killed); e.Kind != ledger.Rerun || e.Reruns != 1 || after > ttl+time.Second {
				t.Errorf("the second run is %+v, won %s after the kill; want a rerun within ttl + 1 s, %s", e, after, ttl+time.Second)
			}
		case e.Run == first.run && e.Outcome != ledger.OutcomeLost:
			t.Errorf("the first run is %s, want lost", e.Outcome)
		case e.Kind == ledger.Rerun:
			t.Errorf("another rerun: %+v", e)
		}
	}
	if reruns != 1 {
		t.Errorf("the ledger has %d entries of the rerun, want 1", reruns)
	}
	delete(daemons, first.host)
	for name, d := range daemons {
		if code := d.stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", name, code)
		}
	}
}

// Two hosts of two places, six jobs of half a second due at once every four seconds, and a job that
// runs on every host: never more than two at once on a host, by the jobs' own word, and nothing is
// left out.
func TestFleet_PlacesAndEveryHost(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	f.host = "max_runs = 2\n"
	places := filepath.Join(f.dir, "places")
	var table strings.Builder
	for i := range 6 {
		fmt.Fprintf(&table, `[jobs.job-%d]
schedule = "*/4 * * * * *"
shell = '''%s
echo "+ $ROTA_HOST" >> %s; sleep 0.5; echo "- $ROTA_HOST" >> %s'''
`, i, f.markCommand(), places, places)
	}
	fmt.Fprintf(&table, "[jobs.own]\nschedule = \"2-59/4 * * * * *\"\nscope = \"host\"\nshell = '%s'\n", f.markCommand())
	a, b := f.start("a", s.Addr(), table.String()), f.start("b", s.Addr(), table.String())
	f.awaitHosts(2)
	from := time.Now()
	time.Sleep(13 * time.Second)
	for _, d := range []*daemon{a, b} {
		if code := d.stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", d.name, code)
		}
	}
	if most := together(t, places); most != 2 {
		t.Errorf("up to %d runs went on at once on a host, want its two places used, and no more", most)
	}
	ran := map[string]map[time.Time]int{}
	for _, m := range f.marks() {
		if ran[m.job] == nil {
			ran[m.job] = map[time.Time]int{}
		}
		if ran[m.job][m.tick]++; ran[m.job][m.tick] > 1 {
			t.Errorf("%s: tick %s ran twice", m.job, m.tick)
		}
		if strings.HasPrefix(m.job, "own") && m.job != "own@"+m.host {
			t.Errorf("%s ran on %s", m.job, m.host)
		}
	}
	const step = 4 * time.Second
	for tick := from.Truncate(step).Add(step); tick.Before(from.Add(11 * time.Second)); tick = tick.Add(step) {
		for i := range 6 {
			if job := fmt.Sprintf("job-%d", i); ran[job][tick.UTC()] != 1 {
				t.Errorf("%s: tick %s did not run: %s", job, tick, f.say(job, tick))
			}
		}
	}
	for _, job := range []string{"own@a", "own@b"} {
		if len(ran[job]) < 2 {
			t.Errorf("%s ran %d times, want each host's own every four seconds", job, len(ran[job]))
		}
	}
}

// together is the most runs that went on at once on a host, by what they wrote when they began and
// ended.
func together(t *testing.T, path string) (most int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	going := map[string]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		what, host, _ := strings.Cut(lines.Text(), " ")
		going[host] += map[string]int{"+": 1, "-": -1}[what]
		most = max(most, going[host])
	}
	return most
}
