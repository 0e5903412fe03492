package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
)

// A tick that waits starts as soon as the lock is free; of several the newest waits, and the others
// are skipped as superseded.
func TestQueue_NewestWaitsAndStartsWhenTheLockIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handlers(210*time.Second+400*time.Millisecond, time.Second))
		j.Overlap = OverlapQueue
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		until(t, "00:03:30")
		if s := f.state("j"); !s.Waiting.Equal(instant("00:03:00")) || !s.Running {
			t.Errorf("at 00:03:30 tick %s waits and a run goes on: %t; want the tick of 00:03 and true", s.Waiting, s.Running)
		}
		until(t, "00:05:30")
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 skipped", "00:03:00 skipped", "00:04:00 succeeded", "00:05:00 succeeded")
		for _, e := range f.history("j") {
			switch e.Tick.Minute() {
			case 2, 3:
				if e.Reason != "superseded by a newer tick" {
					t.Errorf("tick %s is %s: %q, want superseded", e.Tick, e.Outcome, e.Reason)
				}
			case 4: // the run of 00:01 ended 400 ms after 00:04:30
				if late := e.Won.Sub(instant("00:04:30")); late < 400*time.Millisecond || late > 500*time.Millisecond {
					t.Errorf("tick 00:04 was won %s after 00:04:30, want when the lock was free, at 400 ms", late)
				}
			}
		}
	})
}

// Without hints a waiting tick is found by polling.
func TestQueue_WithoutHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.deaf(t)
		j := job(t, "j", "* * * * *", f.handlers(90*time.Second, time.Second))
		j.Overlap = OverlapQueue
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		until(t, "00:02:50")
		f.wantSays("j", "00:01:00 succeeded", "00:02:00 succeeded")
		if late := f.history("j")[1].Won.Sub(instant("00:02:30")); late < 0 || late > 1100*time.Millisecond {
			t.Errorf("the waiting tick was won %s after the lock was free, want within a second", late)
		}
	})
}

// The host that queued the tick goes: by a drain, or without a word. Another one starts it.
func TestQueue_HostThatQueuedGoes(t *testing.T) {
	for name, end := range map[string]func(*host){
		"drained": func(h *host) { h.stop() },
		"died":    func(h *host) { _ = h.client.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.deaf(t)
				j := job(t, "j", "1 0 * * *", f.handler(time.Second))
				j.Overlap, j.Lock = OverlapQueue, "db"
				j.StartDeadline = time.Minute
				hosts := map[string]*host{}
				for _, name := range names(5) {
					hosts[name] = f.start(name, nil, j)
				}
				until(t, "00:00:50")
				f.holds("db", 90*time.Second)
				until(t, "00:01:10")
				if s := f.state("j"); s.Waiting.IsZero() {
					t.Fatal("no tick waits: the test shows nothing")
				}
				queued := f.queuedBy(hosts, "j")
				end(hosts[queued])
				time.Sleep(2 * time.Minute)
				e := f.history("j")
				if len(e) != 1 || e[0].Outcome != string(jobs.Succeeded) || e[0].Host == queued {
					t.Fatalf("the history says %q, want that tick run by another than %s: %+v", f.says("j"), queued, e)
				}
			})
		})
	}
}

// A waiting tick waits through a pause, and starts after it.
func TestQueue_Pause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "j", "*/10 * * * *", f.handlers(11*time.Minute, time.Second))
		j.Overlap = OverlapQueue
		f.start("h0", nil, j)
		f.start("h1", nil, j)
		until(t, "00:20:30") // the tick of 00:20 waits, until 00:21
		if _, err := f.led.Pause(t.Context(), "j", 0, tester, time.Hour); err != nil {
			t.Fatal(err)
		}
		before := proxy.Count(claims)
		until(t, "00:26:00")
		if n := proxy.Count(claims) - before; n > 5 {
			t.Errorf("%d claims in five minutes of a pause, want a few until every host knows of it", n)
		}
		f.wantSays("j", "00:10:00 succeeded")
		if _, err := f.led.Resume(t.Context(), "j", tester); err != nil {
			t.Fatal(err)
		}
		until(t, "00:26:10")
		f.wantSays("j", "00:10:00 succeeded", "00:20:00 succeeded")
	})
}

// "replace" ends the job's older run, wherever it is, within a moment; it says why.
func TestReplace_EndsTheOlderRun(t *testing.T) {
	for name, hints := range map[string]bool{"by a hint": true, "with the next renewal": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				if !hints {
					f.deaf(t)
				}
				j := job(t, "j", "* * * * *", f.handler(time.Hour))
				j.Overlap = OverlapReplace
				for _, name := range names(3) {
					f.start(name, nil, j)
				}
				until(t, "00:04:30")
				f.wantSays("j", "00:01:00 cancelled", "00:02:00 cancelled", "00:03:00 cancelled", "00:04:00 running")
				within := 2100 * time.Millisecond // a renewal, and a poll
				if hints {
					within = 200 * time.Millisecond
				}
				for _, e := range f.history("j") {
					if want := "cancelled: replaced by tick " + e.Tick.Add(time.Minute).Format(time.RFC3339); e.Outcome != "running" && e.Reason != want {
						t.Errorf("tick %s ended: %q, want %q", e.Tick, e.Reason, want)
					}
					if e.Lag() > within {
						t.Errorf("tick %s began %s late, want within %s", e.Tick, e.Lag(), within)
					}
				}
			})
		})
	}
}

// "replace" ends no other job's run: it waits for it.
func TestReplace_WaitsForAnotherJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		other := job(t, "other", "30 1 * * * *", f.handler(2*time.Minute+400*time.Millisecond))
		j := job(t, "j", "*/2 * * * *", f.handler(time.Second))
		j.Overlap, j.Lock, other.Lock = OverlapReplace, "db", "db"
		f.start("h0", nil, j, other)
		f.start("h1", nil, j, other)
		until(t, "00:03:50")
		f.wantSays("other", "00:01:30 succeeded")
		f.wantSays("j", "00:02:00 succeeded")
		if late := f.history("j")[0].Won.Sub(instant("00:03:30")); late < 400*time.Millisecond || late > 500*time.Millisecond {
			t.Errorf("the tick was won %s after 00:03:30, want when the other job's run had ended, at 400 ms", late)
		}
	})
}

// What waits shares a lock with what runs: the end of one job's run starts the other's tick.
func TestQueue_SharedLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var table []Job
		for _, name := range []string{"a", "b", "c"} {
			j := job(t, name, "0 1 * * * *", f.handler(20*time.Second))
			j.Overlap, j.Lock = OverlapQueue, "db"
			table = append(table, j)
		}
		for _, name := range names(3) {
			f.start(name, nil, table...)
		}
		until(t, "00:02:30")
		var ends []time.Time
		for _, j := range table {
			e := f.history(j.Name)
			if len(e) != 1 || e[0].Outcome != string(jobs.Succeeded) {
				t.Fatalf("%s: the history says %q, want one run", j.Name, f.says(j.Name))
			}
			ends = append(ends, e[0].Ended)
		}
		for _, at := range ends {
			if d := at.Sub(instant("00:01:00")); d > 62*time.Second {
				t.Errorf("a run ended %s after its tick, want three of 20 s one after the other", d)
			}
		}
	})
}

// claims picks the claim script: the only one that names three keys.
func claims(args []string) bool {
	return len(args) > 2 && strings.EqualFold(args[0], "evalsha") && args[2] == "3"
}

// deaf loses every hint: the fleet must do without.
func (f *fleet) deaf(t *testing.T) {
	t.Helper()
	proxy := redistest.PipeProxy(t, f.redis.Dial)
	proxy.Reject(1_000_000, func(args []string) bool {
		return len(args) > 0 && strings.EqualFold(args[0], "subscribe")
	}, "-NOPERM no channel")
	f.dial = proxy.Dial
}

// holds takes a lock for a while, as a process outside of the fleet would.
func (f *fleet) holds(lock string, d time.Duration) {
	f.t.Helper()
	key := "{t}:lock:" + lock
	if err := f.redis.Set(key, "0123456789abcdef0123456789abcdef|7|600000|db-9/other/"); err != nil {
		f.t.Fatal(err)
	}
	f.redis.SetTTL(key, d)
}

// queuedBy is the host that looks after a job most closely.
func (f *fleet) queuedBy(hosts map[string]*host, job string) string {
	f.t.Helper()
	for name, h := range hosts {
		h.tending.mu.Lock()
		c := h.tending.jobs[job]
		h.tending.mu.Unlock()
		if c != nil && c.rank == 0 {
			return name
		}
	}
	f.t.Fatalf("no host looks after %s", job)
	return ""
}

// handlers is handler with a length for each run; the last one is that of all further runs.
func (f *fleet) handlers(d ...time.Duration) jobs.Handler {
	n := 0
	return jobs.Func(func(ctx context.Context, run jobs.Run) error {
		f.mu.Lock()
		length := d[min(n, len(d)-1)]
		n++
		f.mu.Unlock()
		res := f.handler(length).Run(ctx, run)
		if res.Outcome != jobs.Succeeded {
			return context.Cause(ctx)
		}
		return nil
	})
}

func (f *fleet) state(job string) ledger.JobState {
	f.t.Helper()
	s, err := f.led.State(context.Background(), []string{job})
	if err != nil {
		f.t.Fatal(err)
	}
	return s[0]
}

// instant is one of the bubble's first day.
func instant(clock string) time.Time {
	at, err := time.Parse("2006-01-02 15:04:05", "2000-01-01 "+clock)
	if err != nil {
		panic(err)
	}
	return at
}
