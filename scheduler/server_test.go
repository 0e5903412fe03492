package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
)

// onServer is a fleet over a real redis-server, on the real clock: for what the in-process one may be
// too kind to.
func onServer(t *testing.T) (*fleet, *redistest.ServerProc) {
	t.Helper()
	s := redistest.Server(t)
	led, err := ledger.New(s.Client(), ledger.Options{Namespace: "t", Keep: 500})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context()) // hosts leave when the test is over
	return &fleet{t: t, led: led, keep: 500, dial: func() (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", s.Addr())
	}}, s
}

// short is the shortest lease for a test that waits for its end.
func short(o *Options) { o.TTL, o.RenewEvery, o.LossGrace = 3*time.Second, 300*time.Millisecond, 0 }

// inTurn checks that runs of the same lock never overlapped, and returns them by their start.
func (f *fleet) inTurn(table ...Job) []ledger.Entry {
	f.t.Helper()
	var all []ledger.Entry
	for _, j := range table {
		for _, e := range f.history(j.Name) {
			if e.Run != "" {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b ledger.Entry) int { return cmp.Compare(a.Token, b.Token) })
	for i := 1; i < len(all); i++ {
		if before, e := all[i-1], all[i]; e.Won.Before(before.Ended.Truncate(time.Millisecond)) {
			f.t.Errorf("%s, tick %s: won at %s, when the run of %s went on until %s", e.Job, e.Tick, e.Won, before.Job, before.Ended)
		}
	}
	return all
}

// Three hosts, three jobs on one lock, each due every two seconds for 400 ms: what waits starts when the
// lock is free, with hints and without the right to any.
func TestServer_Queue(t *testing.T) {
	t.Parallel()
	for _, hints := range []bool{true, false} {
		f, server := onServer(t)
		name := "with hints"
		if !hints {
			name = "without the right to publish"
			server.Do("ACL", "SETUSER", "mute", "on", "nopass", "~{t}:*", "+@all", "resetchannels")
			f.user = "mute"
		}
		t.Run(name, func(t *testing.T) {
			f.t = t
			var table []Job
			for _, name := range []string{"a", "b", "c"} {
				j := job(t, name, "*/2 * * * * *", f.handler(400*time.Millisecond))
				j.Overlap, j.Lock = OverlapQueue, "db"
				table = append(table, j)
			}
			for _, name := range names(3) {
				f.start(name, nil, table...)
			}
			time.Sleep(9 * time.Second)
			runs := f.inTurn(table...)
			longest := time.Duration(0)
			for _, e := range runs {
				longest = max(longest, e.Lag())
			}
			for _, j := range table {
				if _, others := f.accounts(j, runs[0].Tick, time.Now().Add(-3*time.Second)); others > 1 {
					t.Errorf("%s: %d ticks did not run: %q", j.Name, others, f.says(j.Name))
				}
			}
			if len(runs) < 9 || longest < 700*time.Millisecond {
				t.Errorf("%d runs, the last of a tick %s late; want 9 or more, and that some have waited", len(runs), longest)
			}
		})
	}
}

// A newer tick ends the older run, on whatever host that is, and takes its place.
func TestServer_Replace(t *testing.T) {
	t.Parallel()
	f, _ := onServer(t)
	j := job(t, "j", "*/2 * * * * *", f.handler(time.Hour))
	j.Overlap = OverlapReplace
	for _, name := range names(3) {
		f.start(name, nil, j)
	}
	time.Sleep(9 * time.Second)
	runs := f.inTurn(j)
	if len(runs) < 4 {
		t.Fatalf("%d runs, want four or more: %q", len(runs), f.says("j"))
	}
	for i, e := range runs[:len(runs)-1] {
		if want := "cancelled: replaced by tick " + runs[i+1].Tick.Format(time.RFC3339); e.Outcome != string(jobs.Cancelled) || e.Reason != want {
			t.Errorf("tick %s is %s: %q, want %q", e.Tick, e.Outcome, e.Reason, want)
		}
	}
}

// The host of a run is cut off: another one runs its tick again within ttl + 1 s, once.
func TestServer_Rerun(t *testing.T) {
	t.Parallel()
	f, _ := onServer(t)
	j := job(t, "j", "*/10 * * * * *", f.handlers(time.Hour, time.Second))
	j.OnCrash = CrashRerun
	hosts := map[string]*host{}
	for _, name := range names(4) {
		hosts[name] = f.start(name, short, j)
	}
	deadline := time.Now().Add(25 * time.Second)
	for len(f.ran()) == 0 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	first := f.ran()[0]
	time.Sleep(700 * time.Millisecond)
	hosts[first.Host].dies()
	died := time.Now()
	time.Sleep(5500 * time.Millisecond)
	var reruns []ledger.Entry
	for _, e := range f.history("j") {
		if e.Kind == ledger.Rerun {
			reruns = append(reruns, e)
		}
	}
	if len(reruns) != 1 || !reruns[0].Tick.Equal(first.Tick) || reruns[0].Token <= first.Token || reruns[0].Host == first.Host {
		t.Fatalf("reruns are %+v, want one of tick %s, on another host than %s, above token %d", reruns, first.Tick, first.Host, first.Token)
	}
	if after := reruns[0].Won.Sub(died); after > 4*time.Second {
		t.Errorf("the rerun was won %s after its host had died, want within ttl + 1 s: 4 s", after)
	}
}

// All hosts are down for a while: under "all" what passed runs in order, and nothing twice.
func TestServer_MisfireAll(t *testing.T) {
	t.Parallel()
	f, _ := onServer(t)
	j := job(t, "j", "* * * * * *", f.handler(time.Millisecond))
	j.Misfire = MisfireAll
	start := func() (hosts []*host) {
		for _, name := range names(3) {
			hosts = append(hosts, f.start(name, nil, j))
		}
		return hosts
	}
	first := start()
	time.Sleep(4 * time.Second)
	for _, h := range first {
		h.stop()
		<-h.ended
	}
	time.Sleep(8 * time.Second)
	from := time.Now().Add(-9 * time.Second)
	start()
	time.Sleep(6 * time.Second)
	runs, others := f.accounts(j, from, time.Now().Add(-2*time.Second))
	if runs < 13 || others > 1 {
		t.Errorf("%d runs and %d ticks without one, want all of eight seconds caught up: %q", runs, others, f.says("j"))
	}
	last := time.Time{}
	for _, r := range f.ran() {
		if !r.Tick.After(last) {
			t.Errorf("tick %s ran after %s", r.Tick, last)
		}
		last = r.Tick
	}
}

// Claims that Redis leaves without an answer keep their places. What found none then was missed because Redis
// was away, and no host was full.
func TestServer_FullOfUnansweredClaims(t *testing.T) {
	t.Parallel()
	f, server := onServer(t)
	var table []Job
	for i := range 4 {
		j := job(t, fmt.Sprintf("job-%d", i), "*/10 * * * * *", f.handler(time.Millisecond))
		j.Counts, j.StartDeadline = true, 2*time.Second
		table = append(table, j)
	}
	f.start("h0", func(o *Options) { o.MaxRuns, o.OpTimeout = 2, 4*time.Second }, table...)
	tick := time.Now().Add(3 * time.Second).Truncate(10 * time.Second).Add(10 * time.Second)
	time.Sleep(time.Until(tick.Add(-200 * time.Millisecond)))
	server.Freeze()
	time.Sleep(time.Until(tick.Add(4 * time.Second)))
	server.Thaw()
	time.Sleep(4 * time.Second)
	missed := 0
	for _, j := range table {
		for _, e := range f.history(j.Name) {
			if e.Outcome != ledger.OutcomeMissed {
				continue
			}
			if missed++; e.Reason == hostsFull {
				t.Errorf("%s: tick %s is missed: %q", j.Name, e.Tick, e.Reason)
			}
		}
	}
	if missed == 0 {
		t.Error("nothing was missed: the test shows nothing")
	}
}
