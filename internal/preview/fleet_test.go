package preview

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// fate is what became of one tick.
type fate struct {
	what string // ran, skipped, missed; "" is none yet
	host string // of a run
	lag  time.Duration
}

// fates are those of a table, by job and tick.
type fates map[string]map[int64]fate

func (f fates) add(job string, tick int64, to fate) {
	if f[job] == nil {
		f[job] = map[int64]fate{}
	}
	if was, ok := f[job][tick]; ok {
		to.what = fmt.Sprintf("%s and %s", was.what, to.what)
	}
	f[job][tick] = to
}

// The window of both: the table's ticks lie in two minutes that begin one after the hosts do, so that
// they know each other, and nothing goes on. Both are looked at shortly before it ends.
const (
	settle = time.Minute
	window = 2*time.Minute - 50*time.Millisecond
)

// inFleet runs a table on real schedulers in a bubble.
func inFleet(t *testing.T, opt Options) (out fates) {
	t.Helper()
	out = fates{}
	m, c := redistest.InBubble(t)
	dial := redistest.PipeProxy(t, m.Dial).Dial
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended []chan struct{}
	start := time.Now()
	for _, h := range opt.Hosts {
		led, err := ledger.New(redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:0", ContextTimeoutEnabled: true, MaxRetries: -1,
			Dialer:                   func(context.Context, string, string) (net.Conn, error) { return dial() },
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}), ledger.Options{Namespace: "t", Keep: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var table []scheduler.Job
		for i := range opt.Jobs {
			j := opt.Jobs[i].Job
			took := opt.Jobs[i].Durations[0]
			j.Handler = jobs.Func(func(ctx context.Context, _ jobs.Run) error {
				select {
				case <-time.After(took):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			table = append(table, j)
		}
		s, err := scheduler.New(scheduler.Options{
			Ledger: led, Jobs: table, Table: "table", Namespace: "t", Host: h.Name, Labels: h.Labels, MaxRuns: h.MaxRuns,
			TTL: opt.TTL, RenewEvery: opt.RenewEvery, LossGrace: time.Second, OpTimeout: time.Second,
			Boottime: func() time.Duration { return 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		ended = append(ended, done)
		go func() {
			defer close(done)
			_ = s.Run(ctx)
		}()
	}
	led, err := ledger.New(c, ledger.Options{Namespace: "t", Keep: 1000})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(start.Add(settle + window)))
	for i := range opt.Jobs {
		j := &opt.Jobs[i]
		names := []string{j.Name}
		if j.Scope == scheduler.ScopeHost {
			names = nil
			for _, h := range opt.Hosts {
				if scheduler.MayRun(j.Hosts, h.Name, h.Labels) {
					names = append(names, j.Name+"@"+h.Name)
				}
			}
		}
		for _, name := range names {
			entries, err := led.History(t.Context(), ledger.Query{Jobs: []string{name}})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				tick := e.Tick
				for range max(e.Count, 1) {
					f := fate{what: e.Outcome, host: e.Host}
					if e.Run != "" {
						f.what, f.lag = "ran", e.Lag()
					}
					out.add(name, tick.Unix(), f)
					tick, _ = j.Schedule.Next(tick)
				}
			}
		}
	}
	cancel()
	for _, done := range ended {
		<-done
	}
	return out
}

// previewed replays the same table.
func previewed(t *testing.T, opt Options) (fates, *Report) {
	t.Helper()
	out := fates{}
	opt.seen = func(job string, tick int64, what string, host int, lag int64) {
		if what == "missed" && !hosted(opt, job) {
			return // there is nobody to record it
		}
		f := fate{what: what, lag: time.Duration(lag)}
		if host >= 0 {
			f.host = opt.Hosts[host].Name
		}
		out.add(job, tick, f)
	}
	opt.For, opt.Skew, opt.Latency.Median = window, -1, -1
	rep, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return out, rep
}

// hosted tells whether a job has a host.
func hosted(opt Options, job string) bool {
	for i := range opt.Jobs {
		j := &opt.Jobs[i]
		if name, _, _ := strings.Cut(job, "@"); j.Name == name {
			return slices.ContainsFunc(opt.Hosts, func(h Host) bool { return scheduler.MayRun(j.Hosts, h.Name, h.Labels) })
		}
	}
	return false
}

// near is how far apart two starts may be that are the same: hosts know Redis' clock to a millisecond, and
// a host that looks after a job may come a step or two later.
const near = 60 * time.Millisecond

// compare lists the ticks of which other things became, or that started at another time, and those that ran on another host.
func compare(want, got fates) (differ, elsewhere []string, ticks int) {
	all := fates{}
	for _, f := range []fates{want, got} {
		for job := range f {
			for tick := range f[job] {
				if all[job] == nil {
					all[job] = map[int64]fate{}
				}
				all[job][tick] = fate{}
			}
		}
	}
	for job := range all {
		for tick := range all[job] {
			ticks++
			a, b := want[job][tick], got[job][tick]
			line := fmt.Sprintf("%s %s: fleet %s %s, preview %s %s", job, time.Unix(tick, 0).UTC().Format("04:05"), a.what, a.host, b.what, b.host)
			switch {
			case a.what != b.what, (a.lag - b.lag).Abs() > near:
				line += fmt.Sprintf(" (%s and %s after it)", a.lag, b.lag)
				differ = append(differ, line)
			case a.host != b.host && a.what == "ran":
				elsewhere = append(elsewhere, line)
			}
		}
	}
	slices.Sort(differ)
	slices.Sort(elsewhere)
	return differ, elsewhere, ticks
}

// fleetOptions is a table over five hosts.
func fleetOptions(table []Job) Options {
	o := Options{Jobs: table, Hosts: HostsNamed(5), TTL: 10 * time.Second, RenewEvery: time.Second}
	for i := range o.Hosts {
		o.Hosts[i].MaxRuns = 100
	}
	o.Hosts[0].Labels, o.Hosts[1].Labels = []string{"db"}, []string{"db"}
	return o
}

// second makes a job for the window, by its seconds.
func second(t *testing.T, name, seconds string, took time.Duration, change func(*Job)) Job {
	t.Helper()
	rule, err := schedule.Parse("UTC", seconds+" 1,2 * * * *")
	if err != nil {
		t.Fatal(err)
	}
	j := Job{Durations: []time.Duration{took}}
	j.Job = scheduler.Job{Name: name, Schedule: rule, Definition: "d", ScheduleHash: "s", Counts: true}
	if change != nil {
		change(&j)
	}
	return j
}

// against compares a table's preview with its fleet.
func against(t *testing.T, opt Options) (want fates, rep *Report, differ, elsewhere []string, ticks int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opt.From = time.Now().Add(settle).Truncate(time.Second)
		want = inFleet(t, opt)
	})
	opt.From = time.Date(2000, time.January, 1, 0, 1, 0, 0, time.UTC) // bubbles begin at midnight
	got, rep := previewed(t, opt)
	differ, elsewhere, ticks = compare(want, got)
	return want, rep, differ, elsewhere, ticks
}

func TestRun_AgreesWithAFleetOfFive(t *testing.T) {
	const ms = time.Millisecond
	table := []Job{
		second(t, "short", "*/2", 30*ms, nil),
		second(t, "skips", "*/2", 5237*ms, nil),
		second(t, "queues", "*/5", 7413*ms, func(j *Job) { j.Overlap = scheduler.OverlapQueue }),
		second(t, "replaces", "*/4", 9371*ms, func(j *Job) { j.Overlap = scheduler.OverlapReplace }),
		second(t, "allows", "*/3", 11317*ms, func(j *Job) { j.Overlap, j.MaxParallel = scheduler.OverlapAllow, 3 }),
		second(t, "shares-1", "0/6", 4291*ms, func(j *Job) { j.Lock = "shared" }),
		second(t, "shares-2", "3/6", 2357*ms, func(j *Job) { j.Lock, j.Overlap = "shared", scheduler.OverlapQueue }),
		second(t, "on-each", "*/10", 1234*ms, func(j *Job) { j.Scope, j.Splay = scheduler.ScopeHost, 3*time.Second }),
		second(t, "of-the-db", "*/3", 345*ms, func(j *Job) { j.Hosts = []string{"db"} }),
		second(t, "times-out", "*/8", 7777*ms, func(j *Job) { j.Timeout = 3300 * ms; j.Misfire = scheduler.MisfireOnce }),
	}
	want, rep, differ, elsewhere, ticks := against(t, fleetOptions(table))
	for _, line := range differ {
		t.Error(line)
	}
	if ticks < 300 || rep.Ticks.Ran < 150 || rep.Ticks.Skipped < 30 {
		t.Errorf("%d ticks, %+v: too few to compare", ticks, rep.Ticks)
	}
	wins := map[string]int{}
	for _, ticks := range want {
		for _, f := range ticks {
			wins[f.host]++
		}
	}
	for _, h := range rep.Hosts {
		won := float64(wins[h.Host]) / float64(want.ran())
		if d := won - h.Share; d > 0.15 || d < -0.15 {
			t.Errorf("%s won %.0f %% of the runs, the preview says %.0f %%", h.Host, 100*won, 100*h.Share)
		}
	}
	if len(elsewhere)*8 > ticks {
		t.Errorf("%d of %d ticks ran on another host:\n%s", len(elsewhere), ticks, strings.Join(elsewhere, "\n"))
	}
}

// randomTable draws a table with which nothing happens twice in one millisecond but what may: then the
// fleet's order is the machine's mood.
func randomTable(t *testing.T, rng *rand.Rand, full bool) Options {
	t.Helper()
	pick := func(some ...string) string { return some[rng.IntN(len(some))] }
	took := func() time.Duration {
		return time.Duration(rng.IntN(9))*time.Second + time.Duration(200+rng.IntN(600))*time.Millisecond
	}
	var table []Job
	for i := range 8 {
		every := 2 + rng.IntN(9)
		spec := fmt.Sprintf("%d/%d", rng.IntN(every), every)
		table = append(table, second(t, fmt.Sprintf("j%d-%d", i, rng.IntN(1000)), spec, took(), func(j *Job) {
			j.Overlap = scheduler.Overlap(pick("skip", "queue", "replace", "allow", ""))
			j.MaxParallel = rng.IntN(4)
			j.Misfire = scheduler.Misfire(pick("skip", "skip", "once", "all"))
			if full {
				j.Misfire = scheduler.MisfireSkip
			}
			j.Counts = full || rng.IntN(2) == 0
			switch rng.IntN(8) {
			case 0:
				j.Timeout = took()
			case 1:
				j.Splay = time.Second
			case 2:
				j.Scope = scheduler.ScopeHost
			case 3:
				j.Hosts = []string{"db"}
			case 4:
				j.Hosts = []string{"nowhere"}
			case 5:
				j.StartDeadline = 700 * time.Millisecond
			case 6:
				j.Disabled = rng.IntN(3) == 0
			}
		}))
	}
	// Two share a lock, in other seconds; of the two at most one waits for it.
	table = append(table,
		second(t, fmt.Sprintf("s1-%d", rng.IntN(1000)), "0/4", took()/2, func(j *Job) { j.Lock = "shared" }),
		second(t, fmt.Sprintf("s2-%d", rng.IntN(1000)), "2/4", took()/3, func(j *Job) {
			j.Lock, j.Overlap = "shared", scheduler.Overlap(pick("skip", "queue", "replace"))
		}))
	opt := fleetOptions(table)
	opt.Hosts = opt.Hosts[:1+rng.IntN(5)]
	if full {
		for i := range opt.Hosts {
			opt.Hosts[i].MaxRuns = 1 + rng.IntN(2)
		}
	}
	return opt
}

// Random tables on fleets of one to five hosts that have places for all: each tick ends as in the fleet.
func TestRun_AgreesWithFleetsOfAnyTable(t *testing.T) {
	seeds := uint64(10)
	if underRace {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			_, rep, differ, elsewhere, ticks := against(t, randomTable(t, rand.New(rand.NewPCG(seed, 1)), false))
			// What falls into one millisecond in the fleet is decided by its luck.
			if len(differ)*100 > ticks {
				t.Errorf("%d of %d ticks differ:\n%s", len(differ), ticks, strings.Join(differ, "\n"))
			}
			// Which of the hosts that wait for a lock hears first that it is free is nobody's decision.
			if len(elsewhere)*3 > ticks {
				t.Errorf("%d of %d ticks ran on another host", len(elsewhere), ticks)
			}
			if rep.Ticks.Ran < 50 {
				t.Errorf("%+v: too few to compare", rep.Ticks)
			}
		})
	}
}

// Where hosts are full, what is claimed in one instant is the luck of that millisecond, and decides what
// finds a place later: two fleets with one table differ in a third of their ticks. As many run.
func TestRun_IsLikeFullFleets(t *testing.T) {
	for _, seed := range []uint64{2, 5} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			opt := randomTable(t, rand.New(rand.NewPCG(seed, 1)), true)
			var one, two, got fates
			synctest.Test(t, func(t *testing.T) {
				opt.From = time.Now().Add(settle).Truncate(time.Second)
				one = inFleet(t, opt)
			})
			synctest.Test(t, func(t *testing.T) { two = inFleet(t, opt) })
			got, _ = previewed(t, opt)
			ranOne, ranTwo, ran := one.ran(), two.ran(), got.ran()
			if least, most := min(ranOne, ranTwo), max(ranOne, ranTwo); ran*100 < least*80 || ran*100 > most*120 {
				t.Errorf("%d ticks ran, and %d and %d in two fleets", ran, ranOne, ranTwo)
			}
		})
	}
}

func (f fates) ran() (n int) {
	for _, ticks := range f {
		for _, x := range ticks {
			if x.what == "ran" {
				n++
			}
		}
	}
	return n
}
