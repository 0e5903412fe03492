package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
)

func maxRuns(n int) func(*Options) { return func(o *Options) { o.MaxRuns = n } }

// together is the most runs that went on at once on any host, by the ledger.
func (f *fleet) together(table []Job) (most int) {
	f.t.Helper()
	var all []ledger.Entry
	for _, j := range table {
		for _, e := range f.history(j.Name) {
			if e.Run != "" {
				all = append(all, e)
			}
		}
	}
	for _, a := range all {
		n := 0
		for _, b := range all {
			if a.Host == b.Host && !b.Won.After(a.Won) && (b.Ended.IsZero() || b.Ended.After(a.Won)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// Ten jobs due at once, of 20 s each, on two hosts with two places each: four run at once, four when
// those have ended, and for two there is no place before their deadline of 30 s.
func TestRoom_TicksWaitForAPlaceUntilTheirDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.dial = redistest.PipeProxy(t, f.redis.Dial).Dial
		var table []Job
		for i := range 10 {
			j := job(t, fmt.Sprintf("job-%d", i), "* * * * *", f.handler(20*time.Second))
			j.Counts = true
			table = append(table, j)
		}
		free := job(t, "free", "* * * * *", f.handler(20*time.Second)) // a Go handler takes no place
		table = append(table, free)
		log := &logBuffer{}
		f.start("h0", func(o *Options) { maxRuns(2)(o); log.into(o) }, table...)
		f.start("h1", func(o *Options) { maxRuns(2)(o); log.into(o) }, table...)
		until(t, "00:01:50")
		waves := map[int]int{}
		for _, j := range table[:10] {
			e := f.history(j.Name)
			switch {
			case len(e) != 1:
				t.Errorf("%s: the history says %q, want one entry", j.Name, f.says(j.Name))
			case e[0].Outcome == ledger.OutcomeMissed:
				waves[-1]++
				if e[0].Reason != hostsFull {
					t.Errorf("%s: the tick is missed: %q, want %q", j.Name, e[0].Reason, hostsFull)
				}
			default:
				waves[int(e[0].Lag()/time.Second)]++
			}
		}
		if waves[0] != 4 || waves[20] != 4 || waves[-1] != 2 {
			t.Errorf("runs by seconds after their tick: %v; want 4 at once, 4 after 20 s, and 2 missed (-1)", waves)
		}
		f.wantSays("free", "00:01:00 succeeded")
		if n := f.together(table[:10]); n != 2 {
			t.Errorf("%d runs went on at once on a host, want 2", n)
		}
		if n := log.count(`outcome=missed reason="hosts full"`); n != 2 {
			t.Errorf("%d lines say that a tick was missed because hosts are full, want 2", n)
		}
		hosts, err := f.led.Hosts(t.Context())
		if err != nil || len(hosts) != 2 || hosts[0].MaxRuns != 2 {
			t.Errorf("Hosts = %+v, %v; want two of two places", hosts, err)
		}
		for _, j := range table[:10] {
			f.accounts(j, instant("00:00:30"), instant("00:01:00"))
		}
	})
}

// A full host looks, one read an instant, what the others have taken, and claims the rest.
func TestRoom_WaitingCostsNoClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		var table []Job
		for i := range 60 {
			j := job(t, fmt.Sprintf("job-%d", i), "1 0 * * *", f.handler(time.Second))
			j.Counts = true
			table = append(table, j)
		}
		for _, name := range names(4) {
			f.start(name, maxRuns(2), table...)
		}
		until(t, "00:00:59")
		before := proxy.Count(claims)
		until(t, "00:01:30")
		if n := len(f.ran()); n != 60 {
			t.Fatalf("%d ticks ran, want 60", n)
		}
		if n := proxy.Count(claims) - before; n > 100 {
			t.Errorf("%d claims for 60 ticks on four full hosts, want hardly more than one a tick", n)
		}
	})
}

// A host with places takes what a full one leaves; that one does not slow it down by more than its turn.
func TestRoom_AFullHostLeavesTicksToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.dial = redistest.PipeProxy(t, f.redis.Dial).Dial // for its buffer: these pipelines are long
		long := job(t, "long", "30 0 0 * * *", f.handler(time.Hour))
		long.Counts, long.Hosts = true, []string{"h0"}
		var table []Job
		for i := range 8 {
			j := job(t, fmt.Sprintf("job-%d", i), "* * * * *", f.handler(time.Second))
			j.Counts = true
			table = append(table, j)
		}
		table = append(table, long)
		f.start("h0", maxRuns(1), table...)
		f.start("h1", maxRuns(8), table...)
		until(t, "00:05:30")
		for _, j := range table[:8] {
			f.wantSays(j.Name, "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded", "00:04:00 succeeded", "00:05:00 succeeded")
			for _, e := range f.history(j.Name) {
				if e.Host != "h1" || e.Lag() > 100*time.Millisecond {
					t.Errorf("%s: tick %s ran on %s, %s late; want on h1 in its turn", j.Name, e.Tick, e.Host, e.Lag())
				}
			}
		}
	})
}

// Runs by hand take places too, and wait for one as long as somebody waits for them.
func TestRoom_RunsByHandWaitToo(t *testing.T) {
	for _, c := range []struct {
		name string
		busy time.Duration
		want string
	}{
		{"a place is free in time", 5 * time.Second, "succeeded"},
		{"none is", 30 * time.Second, "skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				long := job(t, "long", "1 0 * * *", f.handler(c.busy))
				j := job(t, "j", "0 12 * * *", f.handler(time.Second))
				long.Counts, j.Counts = true, true
				f.start("h0", maxRuns(1), long, j)
				until(t, "00:01:01")
				if _, err := f.led.Ask(t.Context(), ledger.Request{Job: "j", Who: "test"}); err != nil {
					t.Fatal(err)
				}
				until(t, "00:01:25")
				e := f.history("j")
				if len(e) != 1 || e[0].Kind != ledger.Manual || e[0].Outcome != c.want {
					t.Errorf("the history says %q: %+v, want the manual run %s", f.says("j"), e, c.want)
				}
				if n := len(f.ran()); n != map[string]int{"succeeded": 2, "skipped": 1}[c.want] {
					t.Errorf("%d runs began", n)
				}
			})
		})
	}
}

// What found no place in time is caught up when there is one, if the job wants that.
func TestRoom_MisfireOnceRunsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		long := job(t, "long", "1 0 * * *", f.handler(20*time.Minute))
		j := job(t, "j", "2 * * * *", f.handler(time.Second))
		long.Counts, j.Counts = true, true
		j.Misfire, j.StartDeadline = MisfireOnce, 5*time.Minute
		f.start("h0", maxRuns(1), long, j)
		until(t, "00:30:00")
		f.wantSays("j", "00:02:00 succeeded misfire")
		if late := f.history("j")[0].Won.Sub(instant("00:21:00")); late < 0 || late > 61*time.Second {
			t.Errorf("it was won %s after the place was free, want within the minute over which catch-ups are spread", late)
		}
	})
}

// A claim that Redis refuses for long takes no place from others meanwhile.
func TestRoom_ARefusedClaimHoldsNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		spoilt := job(t, "a-spoilt", "* * * * *", f.handler(time.Second))
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		spoilt.Counts, j.Counts = true, true
		if _, err := f.redis.Lpush("{t}:lock:a-spoilt", "no lease"); err != nil {
			t.Fatal(err)
		}
		f.start("h0", maxRuns(1), spoilt, j)
		until(t, "00:03:50")
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded")
	})
}

// A run that ends frees its place, however it ends.
func TestRoom_EveryEndFreesThePlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handlers(time.Hour, time.Hour, time.Hour, time.Second))
		j.Counts, j.Timeout = true, 30*time.Second
		h := f.start("h0", maxRuns(1), j)
		until(t, "00:01:10")
		f.redis.Del("{t}:lock:j") // lost
		until(t, "00:02:10")
		if err := f.led.Cancel(t.Context(), f.ran()[1].ID, tester); err != nil {
			t.Fatal(err)
		}
		until(t, "00:04:30") // the third timed out
		f.wantSays("j", "00:01:00 "+string(jobs.Lost), "00:02:00 "+string(jobs.Cancelled), "00:03:00 "+string(jobs.TimedOut), "00:04:00 succeeded")
		h.room.mu.Lock()
		defer h.room.mu.Unlock()
		if h.room.free != 1 || len(h.room.waiting) != 0 {
			t.Errorf("%d places are free and %d wait, want 1 and none", h.room.free, len(h.room.waiting))
		}
	})
}
