package fleet

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// Three daemons, ten jobs every second, one daemon killed with SIGKILL half-way. One run a
// tick, tokens rise per job; what did not run is what the killed host had claimed (lost), and
// for those jobs the ticks within the dead lease (skipped). The others drain with exit 0.
func TestFleet_OneDaemonKilled(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	var table strings.Builder
	var names []string
	for i := range 10 {
		name := fmt.Sprintf("job-%d", i)
		names = append(names, name)
		// Half of them are over in a moment, half are still going when the kill comes.
		work := "true"
		if i%2 == 1 {
			work = "sleep 0.4"
		}
		fmt.Fprintf(&table, "[jobs.%s]\nschedule = \"* * * * * *\"\nshell = '%s; %s'\n", name, f.markCommand(), work)
	}
	var daemons []*daemon
	for _, name := range []string{"a", "b", "c"} {
		daemons = append(daemons, f.start(name, s.Addr(), table.String()))
	}
	f.awaitHosts(3)
	from := time.Now()
	time.Sleep(8 * time.Second)
	victim := daemons[1]
	eventually(t, 20*time.Second, func() error {
		for i := 1; i < 10; i += 2 { // those that take a while
			key := f.led.LeaseKey(names[i])
			value, _ := f.client.Get(t.Context(), key).Result()
			left, _ := f.client.PTTL(t.Context(), key).Result()
			if strings.Contains(value, "|"+victim.name+"/") && left > ttl-100*time.Millisecond {
				return nil
			}
		}
		return fmt.Errorf("%s has begun nothing", victim.name)
	})
	victim.signal(syscall.SIGKILL)
	killed := time.Now()
	<-victim.done
	time.Sleep(9 * time.Second)
	until := time.Now()
	for _, d := range []*daemon{daemons[0], daemons[2]} {
		if code := d.stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", d.name, code)
		}
	}

	// The jobs' own word: no tick twice, tokens rising in the order of the file.
	ran := map[string]mark{}
	last := map[string]int64{}
	for _, m := range f.marks() {
		key := m.job + " " + m.tick.Format(time.RFC3339)
		if was, ok := ran[key]; ok {
			t.Errorf("%s ran twice: run %s on %s and run %s on %s", key, was.run, was.host, m.run, m.host)
		}
		ran[key] = m
		if m.token <= last[m.job] {
			t.Errorf("%s: token %d is not above %d", key, m.token, last[m.job])
		}
		last[m.job] = m.token
	}

	// The ledger's: every tick is there, and what did not succeed has its reason.
	lost, skipped := 0, 0
	for _, job := range names {
		seen := map[time.Time]bool{}
		lostTick := time.Time{}
		for _, e := range slices.Backward(f.history(job)) {
			n := max(1, e.Count)
			for k := range n {
				tick := e.Tick.Add(time.Duration(k) * time.Second)
				if seen[tick] {
					t.Errorf("%s: tick %s has two entries", job, tick)
				}
				seen[tick] = true
			}
			switch e.Outcome {
			case "succeeded":
				if _, ok := ran[job+" "+e.Tick.Format(time.RFC3339)]; !ok {
					t.Errorf("%s: tick %s succeeded, and the job does not know of it", job, e.Tick)
				}
			case ledger.OutcomeLost:
				lost++
				lostTick = e.Tick
				if e.Host != victim.name || e.Tick.After(killed.Add(time.Second)) {
					t.Errorf("%s: tick %s was lost by %s, only %s was killed, at %s", job, e.Tick, e.Host, victim.name, killed)
				}
			case ledger.OutcomeSkipped:
				if f.stillRan(job, e) {
					continue // a busy machine: the run of the tick before was not over
				}
				skipped += n
				end := e.Tick.Add(time.Duration(n-1) * time.Second)
				if e.Holder != victim.name || end.After(killed.Add(ttl+time.Second)) {
					t.Errorf("%s: ticks %s … %s skipped for %s (%s), want only those within the dead lease", job, e.Tick, end, e.Holder, e.Reason)
				}
			case ledger.OutcomeMissed:
				t.Errorf("%s: tick %s … %s missed: %s", job, e.Tick, e.Until, e.Reason)
			}
		}
		for tick := from.Truncate(time.Second).Add(time.Second); tick.Before(until.Truncate(time.Second)); tick = tick.Add(time.Second) {
			if !seen[tick.UTC()] {
				t.Errorf("%s: tick %s has no entry", job, tick)
			}
		}
		if !lostTick.IsZero() && last[job] == 0 {
			t.Errorf("%s: nothing ran", job)
		}
	}
	t.Logf("%d runs seen by jobs, %d lost with the killed host, %d ticks skipped within its leases", len(ran), lost, skipped)
	if lost == 0 {
		t.Error("nothing was lost: the kill did not hit a run, the test shows nothing")
	}
}

// stillRan tells whether the holder for which a tick was skipped was at work on an older one just
// then, by the ledger.
func (f *fleet) stillRan(job string, skip ledger.Entry) bool {
	f.t.Helper()
	for _, e := range f.history(job) {
		if e.Host == skip.Holder && e.Outcome == "succeeded" && e.Tick.Before(skip.Tick) && e.Ended.After(skip.Tick) {
			return true
		}
	}
	return false
}
