package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
)

// Three daemons are restarted one after the other under ten jobs of every second: no tick is
// missed, none runs twice, and every daemon drains with exit 0.
func TestFleet_RollingRestart(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	var table strings.Builder
	var names []string
	for i := range 10 {
		name := fmt.Sprintf("job-%d", i)
		names = append(names, name)
		fmt.Fprintf(&table, "[jobs.%s]\nschedule = \"* * * * * *\"\nshell = '%s; sleep 0.2'\n", name, f.markCommand())
	}
	hosts := []string{"a", "b", "c"}
	daemons := map[string]*daemon{}
	for _, h := range hosts {
		daemons[h] = f.start(h, s.Addr(), table.String())
	}
	f.awaitHosts(3)
	from := time.Now()
	for _, h := range hosts {
		time.Sleep(2 * time.Second)
		if code := daemons[h].stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", h, code)
		}
		daemons[h] = f.start(h, s.Addr(), table.String())
		f.awaitHosts(3)
	}
	time.Sleep(2 * time.Second)
	until := time.Now()
	for _, h := range hosts {
		if code := daemons[h].stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", h, code)
		}
	}

	ran := map[string]string{}
	for _, m := range f.marks() {
		key := m.job + " " + m.tick.Format(time.RFC3339)
		if other, ok := ran[key]; ok {
			t.Errorf("%s ran on %s and on %s", key, other, m.host)
		}
		ran[key] = m.host
	}
	for _, job := range names {
		for tick := from.Truncate(time.Second).Add(time.Second); tick.Before(until.Add(-time.Second)); tick = tick.Add(time.Second) {
			if ran[job+" "+tick.UTC().Format(time.RFC3339)] == "" {
				t.Errorf("%s: tick %s did not run: %s", job, tick, f.say(job, tick))
			}
		}
	}
	t.Logf("%d runs", len(ran))
}

// say is what the ledger says of one tick.
func (f *fleet) say(job string, tick time.Time) string {
	f.t.Helper()
	for _, e := range f.history(job) {
		last := e.Tick
		if e.Count > 1 {
			last = e.Until
		}
		if !tick.Before(e.Tick) && !tick.After(last) {
			return fmt.Sprintf("%s on %q (%s)", e.Outcome, e.Host, e.Reason)
		}
	}
	return "nothing"
}
