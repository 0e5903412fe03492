package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler/ledger"
)

// dies cuts a host off from Redis for good, which is what the others see of its death.
func (h *host) dies() { _ = h.client.Close() }

// The host of a run dies: another one runs the tick again within ttl + 1 s, once in the fleet,
// under a larger token.
func TestRerun_HolderDies(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts int
		dead  int // with the holder
		deaf  bool
		ttl   time.Duration
		limit time.Duration // after the death
	}{
		{"two hosts", 2, 1, false, 10 * time.Second, 11 * time.Second},
		{"before its heartbeats are missed", 5, 1, false, 4 * time.Second, 5 * time.Second},
		{"without hints", 5, 1, true, 4 * time.Second, 5 * time.Second},
		{"all that guard it die too", 6, 5, false, 10 * time.Second, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				if c.deaf {
					f.deaf(t)
				}
				j := job(t, "j", "1 0 * * *", f.handlers(time.Hour, 30*time.Second))
				j.OnCrash = CrashRerun
				hosts := map[string]*host{}
				for _, name := range names(c.hosts) {
					hosts[name] = f.start(name, func(o *Options) { o.TTL, o.RenewEvery = c.ttl, 500*time.Millisecond }, j)
				}
				until(t, "00:03:17")
				first := f.ran()[0]
				hosts[first.Host].dies()
				died, dead := time.Now(), map[string]bool{first.Host: true}
				for _, name := range names(c.hosts) {
					if len(dead) < c.dead && !dead[name] {
						hosts[name].dies()
						dead[name] = true
					}
				}
				time.Sleep(time.Minute + c.limit)
				f.wantSays("j", "00:01:00 lost", "00:01:00 succeeded rerun")
				entries := f.history("j")
				e := entries[len(entries)-1]
				if after := e.Won.Sub(died); after > c.limit || after < c.ttl-time.Second {
					t.Errorf("the rerun was won %s after the death, want when the lease had ended, within %s", after, c.limit)
				}
				if dead[e.Host] || e.Token <= first.Token || e.Reruns != 1 {
					t.Errorf("the rerun is on %s under token %d, reruns %d; want on a living host, above %d, 1", e.Host, e.Token, e.Reruns, first.Token)
				}
				if n := len(f.ran()); n != 2 {
					t.Errorf("%d runs began, want 2", n)
				}
			})
		})
	}
}

// The rerun's host dies too: that was the last of it.
func TestRerun_Once(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handler(time.Hour))
		j.OnCrash = CrashRerun
		hosts := map[string]*host{}
		for _, name := range names(4) {
			hosts[name] = f.start(name, nil, j)
		}
		until(t, "00:02:00")
		hosts[f.ran()[0].Host].dies()
		until(t, "00:03:00")
		if n := len(f.ran()); n != 2 {
			t.Fatalf("%d runs began, want 2", n)
		}
		hosts[f.ran()[1].Host].dies()
		until(t, "00:06:00")
		if n := len(f.ran()); n != 2 {
			t.Errorf("%d runs began, want 2: a tick is run again once", n)
		}
		f.wantSays("j", "00:01:00 lost", "00:01:00 lost rerun")
	})
}

// A run that its daemon interrupted to stop counts as crashed; nobody waits for a lease to end.
func TestRerun_Interrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handlers(time.Hour, time.Second))
		j.OnCrash = CrashRerun
		hosts := map[string]*host{}
		for _, name := range names(3) {
			hosts[name] = f.start(name, func(o *Options) { o.Drain = 3 * time.Second }, j)
		}
		until(t, "00:02:00")
		h := hosts[f.ran()[0].Host]
		h.stop()
		<-h.ended
		ended := time.Now()
		time.Sleep(5 * time.Second)
		f.wantSays("j", "00:01:00 interrupted", "00:01:00 succeeded rerun")
		for _, e := range f.history("j") {
			if after := e.Won.Sub(ended); e.Kind == ledger.Rerun && after > 2500*time.Millisecond {
				t.Errorf("the rerun was won %s after the host had left, want with the next heartbeat", after)
			}
		}
	})
}

// The lease is taken away under a run: its own host reports it lost, and the tick is run again.
func TestRerun_AfterALostLease(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("hosts %d", n), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				j := job(t, "j", "1 0 * * *", f.handlers(time.Hour, time.Second))
				j.OnCrash = CrashRerun
				for _, name := range names(n) {
					f.start(name, nil, j)
				}
				until(t, "00:02:00")
				f.redis.Del("{t}:lock:j")
				time.Sleep(14 * time.Second)
				f.wantSays("j", "00:01:00 lost", "00:01:00 succeeded rerun")
				for _, e := range f.history("j") {
					if after := e.Won.Sub(instant("00:02:00")); e.Kind == ledger.Rerun && after > 11*time.Second {
						t.Errorf("the rerun was won %s after the lease had gone, want within ttl + 1 s", after)
					}
				}
			})
		})
	}
}

// The only host is killed and started again: it finds what it left.
func TestRerun_AfterARestartOfTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handlers(time.Hour, time.Second))
		j.OnCrash = CrashRerun
		f.start("h0", nil, j).dieAt(t, "00:02:00")
		f.start("h0", nil, j)
		time.Sleep(15 * time.Second)
		f.wantSays("j", "00:01:00 lost", "00:01:00 succeeded rerun")
	})
}

func (h *host) dieAt(t *testing.T, clock string) {
	t.Helper()
	until(t, clock)
	h.dies()
}

// Redis is away for longer than a lease, and the run ends well meanwhile: its outcome comes
// before anybody runs the tick again.
func TestRerun_WaitsForALiveHoldersOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handler(65*time.Second))
		j.OnCrash = CrashRerun
		for _, name := range names(4) {
			f.start(name, nil, j)
		}
		until(t, "00:02:00")
		f.redis.SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(12 * time.Second)
		if f.redis.Exists("{t}:lock:j") {
			t.Fatal("the lease lives: the test shows nothing")
		}
		f.redis.SetError("")
		time.Sleep(20 * time.Second)
		f.wantSays("j", "00:01:00 succeeded")
		if n := len(f.ran()); n != 1 {
			t.Errorf("%d runs began, want 1: the first one ended well", n)
		}
	})
}

// A run has ended well, and Redis does not take its outcome while the lease ends: its own host knows
// better than to run the tick again.
func TestRerun_NotWhileTheOutcomeIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "j", "1 0 * * *", f.handler(65*time.Second))
		j.OnCrash = CrashRerun
		f.start("h0", nil, j)
		until(t, "00:02:00")
		proxy.Reject(1_000_000, func(args []string) bool { // the outcome: no other script has as many arguments and two keys
			return len(args) > 25 && strings.EqualFold(args[0], "evalsha") && args[2] == "2"
		}, "-OOM command not allowed when used memory > 'maxmemory'.")
		until(t, "00:02:10")
		f.redis.Publish("{t}:events", "lost j x y") // somebody has seen it
		until(t, "00:02:50")
		if f.redis.Exists("{t}:lock:j") || f.says("j")[0] != "00:01:00 lost" {
			t.Fatalf("the lease lives, or the outcome is there: %q; the test shows nothing", f.says("j"))
		}
		proxy.Heal()
		until(t, "00:03:10")
		f.wantSays("j", "00:01:00 succeeded")
		if n := len(f.ran()); n != 1 {
			t.Errorf("%d runs began, want 1: the first one ended well", n)
		}
	})
}

// leftBehind is a store with one outcome of an earlier daemon.
type leftBehind []KeptOutcome

func (leftBehind) Keep(*ledger.Grant, *ledger.Ending) (func() error, error) {
	return func() error { return nil }, nil
}
func (l leftBehind) Left() []KeptOutcome { return l }

// The same of an outcome that the daemon before this one has left on this host's disk.
func TestRerun_NotWhileAKeptOutcomeIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handler(65*time.Second))
		j.OnCrash = CrashRerun
		before := f.start("h0", nil, j)
		until(t, "00:01:30")
		var kept leftBehind
		before.mu.Lock()
		for _, r := range before.runs {
			kept = append(kept, KeptOutcome{
				Grant:  r.grant,
				Ending: ledger.Ending{Outcome: string(jobs.Succeeded), Attempt: 1, Started: r.grant.Won, Ended: instant("00:01:31")},
				Drop:   func() error { return nil },
			})
		}
		before.mu.Unlock()
		before.dies()
		until(t, "00:01:55")
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		proxy.Reject(1_000_000, func(args []string) bool { // the outcome, see above
			return len(args) > 25 && strings.EqualFold(args[0], "evalsha") && args[2] == "2"
		}, "-OOM command not allowed when used memory > 'maxmemory'.")
		f.start("h0", func(o *Options) { o.Outcomes = kept }, j)
		until(t, "00:03:00")
		if says := f.says("j"); len(kept) != 1 || says[0] != "00:01:00 lost" {
			t.Fatalf("the outcome is there: %q; the test shows nothing", says)
		}
		proxy.Heal()
		until(t, "00:03:20")
		f.wantSays("j", "00:01:00 succeeded")
		if n := len(f.ran()); n != 1 {
			t.Errorf("%d runs began, want 1: the first one ended well", n)
		}
	})
}

// A newer tick that wins first supersedes the rerun, and that is recorded.
func TestRerun_SupersededByANewerTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "*/5 * * * * *", f.handlers(time.Hour, time.Second))
		j.OnCrash, j.Overlap = CrashRerun, OverlapSkip
		h := f.start("h0", nil, j)
		time.Sleep(7 * time.Second)
		h.dies() // its lease ends before 00:00:17, and others start only then
		until(t, "00:00:19")
		f.start("h1", nil, j)
		until(t, "00:00:28")
		var lost, superseded, reran bool
		for _, e := range f.history("j") {
			lost = lost || e.Outcome == ledger.OutcomeLost
			superseded = superseded || e.Reason == "its rerun was superseded by a newer run"
			reran = reran || e.Kind == ledger.Rerun && e.Run != ""
		}
		if !lost || superseded == reran {
			t.Errorf("the history says %q, want the first run lost, and either run again or superseded", f.says("j"))
		}
		ticks := map[time.Time]int{}
		for _, r := range f.ran() {
			ticks[r.Tick]++
		}
		if n := ticks[instant("00:00:05")]; n != 1 && superseded || n != 2 && reran || ticks[instant("00:00:25")] != 1 {
			t.Errorf("the runs are of the ticks %v", ticks)
		}
	})
}

// A failed run is no crash, and neither is one that a person cancelled.
func TestRerun_NotAfterAnOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "1 0 * * *", f.handler(time.Hour))
		j.OnCrash = CrashRerun
		j.Timeout = 30 * time.Second
		for _, name := range names(3) {
			f.start(name, nil, j)
		}
		until(t, "00:05:00")
		f.wantSays("j", "00:01:00 "+string(jobs.TimedOut))
	})
}

// A claim of the race runs nothing again: it may lie in a server that hangs until the lease has ended of a
// host that is well.
func TestRerun_NotByTheRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		j.OnCrash = CrashRerun
		for _, name := range names(2) {
			f.start(name, nil, j)
		}
		until(t, "00:10:30")
		with := func(word string) int {
			return proxy.Count(func(args []string) bool { return claims(args) && slices.Contains(args, word) })
		}
		if race, rerun := with("supersede"), with("rerun"); race < 9 || rerun != 0 {
			t.Errorf("%d claims of the race may supersede a rerun and %d may be one, want 9 or more and none", race, rerun)
		}
	})
}
