package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Case L19: 1,000 runs leave a bounded number of keys, and all of them expire.
func TestLedger_LeaksNoKeys(tt *testing.T) {
	const jobs, runs, keep = 20, 50, 5
	t := onServer(tt)
	t.keeping(keep)
	for i := range jobs {
		job := func(c *Claim) { c.Job, c.Lock, c.Table, c.Index = fmt.Sprint("job", i), fmt.Sprint("job", i), "tb", i }
		for n := 1; n <= runs; n++ {
			switch at := n - runs; n % 10 {
			case 3:
				t.expire(t.win(t.claim(at, job)).Claim) // crashes
			case 5:
				g := t.win(t.claim(at-1, job, func(c *Claim) { c.Tick = c.Tick.Add(30 * time.Second) }))
				t.want("held waiting", t.claim(at, job, overlap("replace")))
				t.end(g, "failed")
			case 7:
				c := t.claim(at, job)
				t.win(c)
				t.abandon(c)
			default:
				t.printed(at, []string{"succeeded", "failed"}[n%2], job)
			}
		}
	}
	if _, err := t.led.Beat(t.ctx(), Host{Name: "a"}, "x", "0"); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, k := range t.keys() {
		kind, _, _ := strings.Cut(strings.TrimPrefix(k, "{t}:"), ":")
		kinds[kind]++
		if ttl := t.client.PTTL(t.ctx(), k).Val(); ttl <= 0 {
			t.Errorf("PTTL %s = %v, want an expiry", k, ttl)
		}
	}
	// A run's own key and output live as long as its entries: keep runs, and failures.
	perRun := jobs * (keep + failsKept + 2)
	for kind, most := range map[string]int{"job": 4 * jobs, "lock": 3 * jobs, "run": perRun + 5*jobs, "out": perRun, "taken": 2 * runs} {
		if kinds[kind] > most {
			t.Errorf("%d keys {t}:%s:…, want %d at most", kinds[kind], kind, most)
		}
		delete(kinds, kind)
	}
	delete(kinds, "epoch")
	delete(kinds, "hosts")
	delete(kinds, "open")
	if len(kinds) > 0 {
		t.Errorf("other keys: %v, want none", kinds)
	}
}

// A claim leaves no key without an expiry, also if nothing follows it, and a finish leaves none, also
// if Redis has forgotten the run by then: each may be the last word about a job.
func TestLedger_EachScriptLeavesExpiries(t *testing.T) {
	onEach(t, func(t *rig) {
		expire := func(t *rig, after string) {
			t.Helper()
			for _, k := range t.keys() {
				if ttl := t.client.PTTL(t.ctx(), k).Val(); ttl <= 0 {
					t.Errorf("after %s PTTL %s = %v, want an expiry", after, k, ttl)
				}
			}
		}
		t.fresh("", func(t *rig) {
			g := t.win(t.claim(0))
			expire(t, "a claim")
			t.do("FLUSHALL")
			if _, err := t.led.Finish(t.ctx(), g, Ending{Outcome: "failed", Attempt: 1, Output: []byte("text")}); err != nil {
				t.Fatal(err)
			}
			expire(t, "a finish of a run that is forgotten")
		})
		t.fresh("by hand", func(t *rig) {
			t.win(t.manual())
			expire(t, "a job's first claim, by hand")
		})
		t.fresh("of a run that another overtook", func(t *rig) {
			g := t.win(t.claim(-1))
			t.expire(g.Claim)
			t.ran(0)
			t.do("PERSIST", "{t}:job:j") // what an older host has left
			t.do("PERSIST", "{t}:job:j:runs")
			t.end(g, "succeeded")
			expire(t, "a late finish")
		})
	})
}
