package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/locking"
)

// documentedACL is the one line of docs/deployments.md that makes a user for a fleet.
func documentedACL(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("../../docs/deployments.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER rota on >SECRET .*$`).FindAllString(string(text), -1)
	if len(m) != 1 {
		t.Fatalf("docs/deployments.md has %d such lines, want one", len(m))
	}
	var words []any
	for w := range strings.FieldsSeq(m[0]) {
		words = append(words, w)
	}
	return words
}

// Every way to a Redis, each with all that a ledger does.
func TestLedger_Deployments(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	server.Do(documentedACL(t)...)
	cluster := redistest.Cluster(t)
	for _, s := range cluster.Nodes {
		s.Do(append(documentedACL(t), "+cluster|slots", "+asking")...)
	}
	watched := redistest.Server(t)
	sentinel := redistest.Sentinel(t, watched)
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
	}{
		{"RESP3", redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 3})},
		{"RESP2", redis.NewClient(&redis.Options{Addr: server.Addr(), Protocol: 2, DB: 1})},
		{"the documented user", redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "rota", Password: "SECRET", ClientName: "rota"})},
		{"the documented user in RESP2", redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "rota", Password: "SECRET", Protocol: 2})},
		{"a cluster", cluster.Client()},
		{"the documented user of a cluster", redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cluster.Addrs(), Username: "rota", Password: "SECRET", DisableRoutingPolicies: true,
		})},
		{"a master of sentinels", redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel.Addr()}, Protocol: 2,
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { _ = c.client.Close() })
			usesAll(t, c.client)
			server.Do("FLUSHALL")
			for _, s := range cluster.Nodes {
				s.Do("FLUSHALL")
			}
		})
	}
}

// usesAll has two hosts and a person do all they can, and looks whether the ledger tells of it.
func usesAll(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	led, err := New(client, Options{Namespace: "rota", Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	hints := led.Hints(ctx)
	defer func() { _ = hints.Close() }()
	_, err = hints.Receive(ctx)
	must("Hints", err)
	fleet, err := led.Beat(ctx, Host{Name: "a"}, "1", "0")
	must("Beat", err)
	now := fleet.Now.Truncate(time.Second)
	runs := 0
	claim := func(n int, change ...func(*Claim)) Claim {
		runs++
		c := Claim{
			Job: "j", Lock: "l", Kind: Scheduled, Tick: now.Add(time.Duration(n-20) * time.Second), Since: now.Add(-time.Hour),
			Run: fmt.Sprint("run", runs), Token: locking.NewToken(), Host: "a", Definition: "d", ScheduleHash: "s",
			TTL: time.Minute, Expire: time.Hour, Overlap: "queue", Misfire: "skip", OnCrash: "rerun", MaxParallel: 2, Table: "t", Index: n,
			Count: func(after, until time.Time) Ticks { return Ticks{N: 1, First: until, Last: until} },
		}
		c.Prev = c.Tick.Add(-time.Second)
		for _, f := range change {
			f(&c)
		}
		return c
	}
	want := func(answer Answer, c Claim) Decision {
		t.Helper()
		d := led.Claim(ctx, []Claim{c})[0]
		if d.Err != nil || d.Answer != answer {
			t.Fatalf("Claim = %+v, want %s", d, answer)
		}
		return d
	}
	finish := func(c Claim, d Decision, outcome string) {
		t.Helper()
		held, err := led.Finish(ctx, &Grant{Claim: c, Fence: d.Fence, Found: d.Found, Won: d.Won},
			Ending{Outcome: outcome, Started: d.Won, Ended: d.Won, Output: []byte("printed"), ExitCode: new(1)})
		if !held || err != nil {
			t.Fatalf("Finish = %t, %v", held, err)
		}
	}

	first := claim(1)
	won := want(Won, first) // and counts a gap
	if taken, err := led.Taken(ctx, "t", first.Tick); err != nil || !taken(1) || taken(2) {
		t.Errorf("Taken = %v, want the first job alone", err)
	}
	if r := led.Renew(ctx, []*Grant{{Claim: first, Fence: won.Fence}}); r[0].Err != nil || !r[0].Renewed {
		t.Errorf("Renew = %+v", r[0])
	}
	must("Cancel", led.Cancel(ctx, first.Run, By{"ada", "why not"}))
	second := claim(2, by("b"), func(c *Claim) { c.Overlap = "replace" })
	if d := want(Held, second); d.Decided != Waiting {
		t.Errorf("Claim of a held lock = %+v, want it to wait", d)
	}
	if r := led.Renew(ctx, []*Grant{{Claim: first, Fence: won.Fence}}); r[0].Cancel == "" || r[0].End == "" {
		t.Errorf("Renew = %+v, want a cancel and an end", r[0])
	}
	want(Held, claim(3, func(c *Claim) { c.Overlap = "skip" }))
	led.Urge(ctx, first.Run)
	finish(first, won, "failed")
	second.Run, second.Token = "again", locking.NewToken()
	won = want(Won, second)
	finish(second, won, "interrupted")
	rerun := claim(2)
	won = want(Won, rerun)
	if won.Found != FoundRerun {
		t.Errorf("Claim = %+v, want a rerun", won)
	}
	must("Abandon", led.Abandon(ctx, &rerun, "draining"))
	parallel := claim(4, func(c *Claim) { c.Overlap, c.Lease = "allow", "l:1" })
	won = want(Won, parallel)
	finish(parallel, won, "succeeded")
	for n := range 3 {
		c := claim(5 + n)
		finish(c, want(Won, c), "succeeded") // trims
	}
	if c := claim(9, func(c *Claim) { c.Deadline = c.Tick.Add(time.Second) }); want(Late, c).Decided != Missed {
		t.Error("a late claim is not missed")
	}

	_, err = led.Pause(ctx, "j", time.Hour, By{"ada", "upgrade"}, time.Hour)
	must("Pause", err)
	_, err = led.Pause(ctx, AllJobs, time.Hour, By{"ada", "upgrade"}, time.Hour)
	must("Pause all", err)
	want(Paused, claim(10))
	steering, err := led.Steering(ctx)
	must("Steering", err)
	must("Restore", led.Restore(ctx, steering, now, time.Hour))
	for _, job := range []string{"j", AllJobs} {
		_, err = led.Resume(ctx, job, By{"ada", ""})
		must("Resume", err)
	}
	_, err = led.DrainHost(ctx, "b", false, By{"ada", ""})
	must("DrainHost", err)
	want(Drained, claim(11, by("b")))
	if undone, err := led.DrainHost(ctx, "b", true, By{}); !undone || err != nil {
		t.Errorf("DrainHost, undo = %t, %v", undone, err)
	}
	_, _, err = led.Reset(ctx, "j")
	must("Reset", err)
	asked := Request{Job: "j", Who: "ada"}
	for _, withdrawn := range []bool{true, false} {
		asked.ID, err = led.Ask(ctx, asked)
		must("Ask", err)
		if withdrawn {
			if ok, err := led.Withdraw(ctx, asked.ID); !ok || err != nil {
				t.Errorf("Withdraw = %t, %v", ok, err)
			}
		}
	}
	manual := claim(12, kind(Manual), func(c *Claim) { c.Tick, c.Request, c.Who = asked.Asked(), asked.ID, asked.Who })
	finish(manual, want(Won, manual), "succeeded")
	if e, ok, err := led.Answered(ctx, asked); !ok || err != nil || e.Run != manual.Run {
		t.Errorf("Answered = %+v, %t, %v", e, ok, err)
	}

	if states, err := led.State(ctx, []string{"j", "none"}); err != nil || states[0].Err != nil || !states[0].Known || states[1].Known {
		t.Errorf("State = %+v, %v", states, err)
	}
	_, err = led.Standings(ctx, []string{"j"})
	must("Standings", err)
	if cursors, at, err := led.Cursors(ctx, []string{"j"}); err != nil || cursors[0].Tick.IsZero() || at.Sub(now).Abs() > time.Minute {
		t.Errorf("Cursors = %+v at %s, %v", cursors, at, err)
	}
	if recent, at, err := led.Recent(ctx, []string{"j"}, 10); err != nil || len(recent[0]) == 0 || at.Sub(now).Abs() > time.Minute {
		t.Errorf("Recent = %+v at %s, %v", recent, at, err)
	}
	if e, err := led.Run(ctx, manual.Run); err != nil || e.Outcome != "succeeded" || e.Token <= won.Fence {
		t.Errorf("Run = %+v, %v", e, err)
	}
	if out, err := led.Output(ctx, manual.Run); err != nil || string(out) != "printed" {
		t.Errorf("Output = %q, %v", out, err)
	}
	history, err := led.History(ctx, Query{Jobs: []string{"j"}})
	must("History", err)
	for _, outcome := range []string{"succeeded", "failed", "skipped", "missed"} {
		if !slices.ContainsFunc(history, func(e Entry) bool { return e.Outcome == outcome }) {
			t.Errorf("the history has nothing that was %s: %+v", outcome, history)
		}
	}
	if hosts, err := led.Hosts(ctx); err != nil || len(hosts) != 1 {
		t.Errorf("Hosts = %+v, %v", hosts, err)
	}
	must("Touch", led.Touch(ctx, []string{"j"}, time.Millisecond, func(string) time.Duration { return time.Hour }))
	must("Leave", led.Leave(ctx, "a", ""))
	heard := 0
	for ch := hints.Channel(); ; heard++ {
		select {
		case <-ch:
			continue
		case <-time.After(100 * time.Millisecond):
		}
		break
	}
	if heard < 3 {
		t.Errorf("%d hints came, want those of the free lock, the drain and the request", heard)
	}
}

// A Ring looks on another server when one is down: what was decided is not there.
func TestNew_RefusesARing(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	if _, err := New(ring, Options{Namespace: "rota"}); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("New with a redis.Ring = %v, want it refused", err)
	}
	if _, err := New(redis.NewClient(&redis.Options{}), Options{Namespace: "rota", WaitReplicas: -1}); err == nil {
		t.Error("New with WaitReplicas -1 = nil, want it refused")
	}
}

// What a Sentinel says of a master that it does not know is no answer about keys.
func TestLedger_SentinelsThatNameNoMaster(t *testing.T) {
	t.Parallel()
	sentinel := redistest.Sentinel(t, redistest.Server(t))
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "nobody", SentinelAddrs: []string{sentinel.Addr()}, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	led, err := New(client, Options{Namespace: "rota"})
	if err != nil {
		t.Fatal(err)
	}
	_, state := led.State(t.Context(), []string{"j"})
	_, taken := led.Taken(t.Context(), "t", time.Now())
	_, history := led.History(t.Context(), Query{Jobs: []string{"j"}})
	_, run := led.Run(t.Context(), "x")
	_, hosts := led.Hosts(t.Context())
	for what, err := range map[string]error{"State": state, "Taken": taken, "History": history, "Run": run, "Hosts": hosts} {
		if !errors.Is(err, locking.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "no master by that name") {
			t.Errorf("%s = %v, want ErrUnavailable that says so", what, err)
		}
	}
}

// A claim counts when the replica has it; else it says so, and can be given back.
func TestClaim_WaitReplicas(t *testing.T) {
	t.Parallel()
	r := onServer(t)
	replica := redistest.Replica(t, r.server)
	led, err := New(r.client, Options{Namespace: "t", WaitReplicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.led = led
	ask := func(claims ...Claim) []Decision {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return led.Claim(ctx, claims)
	}
	ok := r.claim(0, ofJob("a"), onLock("a"))
	if d := ask(ok, r.claim(0, ofJob("b"), onLock("b"))); d[0].Answer != Won || d[0].Short != nil || d[1].Short != nil {
		t.Fatalf("Claim, the replica there = %+v", d)
	}
	replica.Freeze()
	short, held := r.claim(0, ofJob("c"), onLock("c")), r.claim(0, ofJob("d"), onLock("a"))
	began := time.Now()
	d := ask(short, held)
	if took := time.Since(began); took < 400*time.Millisecond || took > 900*time.Millisecond {
		t.Errorf("Claim, the replica hanging, took %s, want half of what ctx had", took)
	}
	if d[0].Answer != Won || !errors.Is(d[0].Short, locking.ErrNotReplicated) || d[0].Err != nil {
		t.Errorf("Claim, the replica hanging = %+v, want it won and short", d[0])
	}
	if d[1].Answer != Held || d[1].Short != nil {
		t.Errorf("Claim of a held lock = %+v, want held and nothing else", d[1])
	}
	if again := ask(short)[0]; again.Answer != Won || again.Short == nil || again.Fence != d[0].Fence {
		t.Errorf("the same claim again = %+v, want the same answer", again)
	}
	replica.Thaw()
	for deadline := time.Now().Add(5 * time.Second); ; {
		again := ask(short)[0]
		if again.Answer == Won && again.Short == nil && again.Fence == d[0].Fence {
			break // asked again, it says what is so now
		}
		if time.Now().After(deadline) {
			t.Fatalf("the same claim, the replica back = %+v, want it won", again)
		}
	}
	r.abandon(short)
}
