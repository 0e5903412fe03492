package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// An hour's outage, from 00:05:10 to 01:05:40, under each misfire policy: of every host, and of
// Redis, with one host and with three. Exactly these ticks run, in this order, and these are missed.
func TestMisfire_AnHoursOutage(t *testing.T) {
	outages := map[string]func(t *testing.T, f *fleet, hosts []*host, start func()){
		"all hosts are down": func(t *testing.T, _ *fleet, hosts []*host, start func()) {
			t.Helper()
			for _, h := range hosts {
				h.stop()
				<-h.ended
			}
			until(t, "01:05:40")
			start()
		},
		"redis is away": func(t *testing.T, f *fleet, _ []*host, _ func()) {
			t.Helper()
			f.redis.SetError("LOADING Redis is loading the dataset in memory")
			until(t, "01:05:40")
			f.redis.SetError("")
		},
	}
	ran := func(kind string, every time.Duration, from, until string) (lines []string) {
		for tick := instant(from); !tick.After(instant(until)); tick = tick.Add(every) {
			lines = append(lines, tick.Format("15:04:05")+" succeeded"+kind)
		}
		return lines
	}
	join := func(parts ...[]string) []string { return slices.Concat(parts...) }
	before := ran("", time.Minute, "00:01:00", "00:05:00")
	beforeOften := ran("", 20*time.Second, "00:00:20", "00:05:00")
	for _, c := range []struct {
		misfire  Misfire
		minutely []string // a job of every minute, 30 s of start deadline
		often    []string // every 20 s: 181 ticks passed, more than are caught up
	}{
		{
			misfire: MisfireSkip,
			minutely: join(before, []string{"00:06:00…01:04:00 (59) missed", "01:05:00 missed"},
				ran("", time.Minute, "01:06:00", "01:09:00")),
			often: join(beforeOften, []string{"00:05:20…01:05:20 (181) missed"}, ran("", 20*time.Second, "01:05:40", "01:09:00")),
		},
		{
			misfire: MisfireOnce,
			minutely: join(before, []string{"00:06:00…01:04:00 (59) missed"}, ran(" misfire", time.Minute, "01:05:00", "01:05:00"),
				ran("", time.Minute, "01:06:00", "01:09:00")),
			often: join(beforeOften, []string{"00:05:20…01:05:20 (181) missed"}, ran("", 20*time.Second, "01:05:40", "01:09:00")),
		},
		{
			// While the 60 of the outage run, a second each, 01:06 becomes due, and is late when its turn
			// comes; so are two of the other job's, of which 100 run for 600 ms each.
			misfire: MisfireAll,
			minutely: join(before, ran(" misfire", time.Minute, "00:06:00", "01:06:00"),
				ran("", time.Minute, "01:07:00", "01:09:00")),
			often: join(beforeOften, []string{"00:05:20…00:32:20 (82) missed"}, ran(" misfire", 20*time.Second, "00:32:40", "01:06:20"),
				ran("", 20*time.Second, "01:06:40", "01:09:00")),
		},
	} {
		for outage, away := range outages {
			for _, n := range []int{1, 3} {
				if underRace && n == 1 {
					continue // the detector makes it ten times slower; it has more to see with three
				}
				t.Run(fmt.Sprintf("%s, %s, hosts %d", c.misfire, outage, n), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						f := newFleet(t)
						f.keep = 500
						minutely := job(t, "minutely", "* * * * *", f.handler(time.Second))
						often := job(t, "often", "*/20 * * * * *", f.handler(600*time.Millisecond))
						minutely.Misfire, often.Misfire = c.misfire, c.misfire
						var hosts []*host
						start := func() {
							for _, name := range names(n) {
								hosts = append(hosts, f.start(name, nil, minutely, often))
							}
						}
						start()
						until(t, "00:05:10")
						away(t, f, hosts, start)
						until(t, "01:09:15")
						f.wantTicks("minutely", c.minutely)
						f.wantTicks("often", c.often)
						last := map[string]time.Time{}
						for _, r := range f.ran() {
							if !r.Tick.After(last[r.Job]) {
								t.Errorf("%s: tick %s ran after %s, want the oldest first", r.Job, r.Tick, last[r.Job])
							}
							last[r.Job] = r.Tick
						}
						for _, e := range f.history("minutely") {
							if e.Kind != ledger.Misfire {
								continue
							}
							// The catch-up is spread over at most 10 s: half of what is left of 01:05.
							if d := e.Won.Sub(instant("01:05:40")); d < 0 || c.misfire == MisfireOnce && d > 11*time.Second {
								t.Errorf("tick %s was caught up %s after the outage, want within 11 s", e.Tick, d)
							}
							break
						}
					})
				})
			}
		}
	}
}

// Many jobs that were due while nobody was there do not all begin in one moment, and all of them
// within the minute.
func TestMisfire_CatchUpsAreSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.dial = redistest.PipeProxy(t, f.redis.Dial).Dial // for its buffer: these pipelines are long
		var table []Job
		for i := range 60 {
			j := job(t, fmt.Sprintf("job-%d", i), "0 * * * *", f.handler(time.Second))
			j.Misfire, j.StartDeadline = MisfireOnce, time.Minute
			table = append(table, j)
		}
		h := f.start("h0", nil, table...)
		until(t, "01:00:10") // a record is made by the first claim; what was before it is nobody's
		h.stop()
		<-h.ended
		until(t, "02:30:00")
		for _, name := range names(3) {
			f.start(name, nil, table...)
		}
		until(t, "02:31:05")
		seconds := map[int]int{}
		for _, j := range table {
			e := f.history(j.Name)
			if len(e) != 2 || e[1].Kind != ledger.Misfire || !e[1].Tick.Equal(instant("02:00:00")) {
				t.Fatalf("%s: the history says %q, want 02:00 caught up by 02:31", j.Name, f.says(j.Name))
			}
			seconds[int(e[1].Won.Sub(instant("02:30:00"))/(10*time.Second))]++
		}
		for i := range 6 {
			if n := seconds[i]; n < 3 || n > 20 {
				t.Errorf("%d of 60 jobs caught up within ten seconds from 02:30:%d0 on, want about 10: %v", n, i, seconds)
			}
		}
	})
}

// Ticks inside a pause are not caught up, and neither are those from before the job, under "all" too.
func TestMisfire_NotWhatWasNotDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "*/10 * * * *", f.handler(time.Second))
		j.Misfire, j.StartDeadline = MisfireAll, time.Minute
		until(t, "00:15:00")
		h := f.start("h0", nil, j) // 00:10 was before it
		until(t, "00:25:00")
		h.stop()
		<-h.ended
		if _, err := f.led.Pause(t.Context(), "j", 32*time.Minute, tester, time.Hour); err != nil { // until 00:57
			t.Fatal(err)
		}
		until(t, "01:15:00")
		f.start("h1", nil, j)
		until(t, "01:25:00")
		f.wantTicks("j", []string{
			"00:20:00 succeeded", "00:30:00…00:50:00 (3) skipped", "01:00:00 succeeded misfire", "01:10:00 succeeded misfire", "01:20:00 succeeded",
		})
	})
}

// The newest tick is inside a pause, which the record's cursor does not say: it is asked about once.
func TestMisfire_PausedTickIsAskedAboutOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "j", "*/10 * * * *", f.handler(time.Second))
		j.Misfire, j.StartDeadline = MisfireAll, time.Minute
		f.start("h0", nil, j)
		until(t, "00:15:00")
		if _, err := f.led.Pause(t.Context(), "j", 12*time.Minute, tester, time.Hour); err != nil { // until 00:27
			t.Fatal(err)
		}
		until(t, "00:28:00")
		before := proxy.Count(claims)
		f.start("h1", nil, j)
		until(t, "00:29:50")
		if n := proxy.Count(claims) - before; n == 0 || n > 2 {
			t.Errorf("%d claims for a tick inside a pause that is over, want one or two", n)
		}
		until(t, "00:30:10")
		f.wantTicks("j", []string{"00:10:00 succeeded", "00:20:00 skipped", "00:30:00 succeeded"})
	})
}

// A claim was refused until its tick was late: the tick is caught up once somebody has mended it.
func TestMisfire_AfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "0 * * * *", f.handler(time.Second))
		j.Misfire, j.StartDeadline = MisfireOnce, 10*time.Minute
		f.start("h0", nil, j)
		until(t, "01:30:00")
		if _, err := f.redis.Lpush("{t}:lock:j", "no lease"); err != nil {
			t.Fatal(err)
		}
		until(t, "02:20:00")
		f.redis.Del("{t}:lock:j")
		until(t, "02:22:00")
		f.wantTicks("j", []string{"01:00:00 succeeded", "02:00:00 succeeded misfire"})
	})
}

// A host wins a tick and never hears of it: it gives the tick back, and another one catches it up, or
// records it as missed.
func TestMisfire_GivenBackTooLate(t *testing.T) {
	for misfire, want := range map[Misfire]string{MisfireSkip: "00:02:00 missed", MisfireOnce: "00:02:00 succeeded misfire", MisfireAll: "00:02:00 succeeded misfire"} {
		t.Run(string(misfire), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				name := "j"
				for rank(name, instant("00:02:00"), "h0", names(2)) > 0 {
					name += "j"
				}
				j := job(t, name, "* * * * *", f.handler(time.Second))
				j.Misfire, j.StartDeadline = misfire, 10*time.Second
				proxy := redistest.PipeProxy(t, f.redis.Dial)
				f.dial = proxy.Dial
				f.start("h0", nil, j)
				f.dial = f.redis.Dial
				f.start("h1", nil, j)
				until(t, "00:01:30") // the script is known by then
				proxy.DropReplies(1_000_000, claims)
				until(t, "00:02:05")
				if !f.redis.Exists("{t}:lock:" + name) {
					t.Fatal("h0 has not won the tick: the test shows nothing")
				}
				until(t, "00:02:55")
				f.wantSays(name, "00:01:00 succeeded", want)
				for _, e := range f.history(name) {
					if e.Kind == ledger.Misfire && e.Host != "h1" {
						t.Errorf("it ran on %s", e.Host)
					}
				}
			})
		})
	}
}

// A tick that is caught up waits for a lock that another job holds, and is not skipped.
func TestMisfire_WaitsForTheLock(t *testing.T) {
	for _, misfire := range []Misfire{MisfireOnce, MisfireAll} {
		t.Run(string(misfire), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.deaf(t)
				j := job(t, "j", "*/30 * * * *", f.handler(time.Second))
				j.Misfire, j.StartDeadline, j.Lock = misfire, time.Minute, "db"
				h := f.start("h0", nil, j)
				until(t, "00:35:00")
				h.stop()
				<-h.ended
				until(t, "01:10:00")
				f.holds("db", 3*time.Minute+500*time.Millisecond)
				for _, name := range names(3) {
					f.start(name, nil, j)
				}
				until(t, "01:15:00")
				f.wantTicks("j", []string{"00:30:00 succeeded", "01:00:00 succeeded misfire"})
				for _, e := range f.history("j") {
					if late := e.Won.Sub(instant("01:13:00")); e.Kind == ledger.Misfire && (late < 500*time.Millisecond || late > 1600*time.Millisecond) {
						t.Errorf("it was won %s after 01:13, want within a second of the lock's end at 500 ms", late)
					}
				}
			})
		})
	}
}

// A tick that comes due in time while others are still to be caught up waits for its turn among them. When
// it is only the last of them that still runs, nothing has misfired any more: the tick meets a held lock,
// like any other, and overlap says what becomes of it.
func TestMisfire_TheTickAfterTheLastMeetsAHeldLock(t *testing.T) {
	for overlap, want := range map[Overlap]string{OverlapSkip: "00:07:00 skipped", OverlapQueue: "00:07:00 succeeded"} {
		t.Run(string(overlap), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				j := job(t, "j", "* * * * *", f.handler(40*time.Second))
				j.Misfire, j.Overlap = MisfireAll, overlap
				h := f.start("h0", nil, j)
				until(t, "00:02:50")
				h.stop()
				<-h.ended
				until(t, "00:04:40")
				f.start("h1", nil, j)
				until(t, "00:08:55")
				f.wantTicks("j", []string{
					"00:01:00 succeeded", "00:02:00 succeeded", "00:03:00 succeeded misfire", "00:04:00 succeeded misfire",
					"00:05:00 succeeded misfire", "00:06:00 succeeded misfire", want, "00:08:00 succeeded",
				})
			})
		})
	}
}

// A long catch-up costs a few claims a run, however many hosts there are.
func TestMisfire_CatchingUpIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.keep = 500
		proxy := redistest.PipeProxy(t, f.redis.Dial)
		f.dial = proxy.Dial
		j := job(t, "j", "* * * * *", f.handler(5*time.Second))
		j.Misfire = MisfireAll
		h := f.start("h0", nil, j)
		until(t, "00:01:30")
		h.stop()
		<-h.ended
		until(t, "01:30:45")
		before := proxy.Count(claims)
		for _, name := range names(10) {
			f.start(name, nil, j)
		}
		until(t, "01:44:00")
		runs := len(f.ran()) - 1
		if runs < 95 {
			t.Fatalf("%d ticks were caught up, want those of an hour and a half: %q", runs, f.says("j"))
		}
		if n := proxy.Count(claims) - before; n > 3*runs {
			t.Errorf("%d claims for %d runs on ten hosts, want less than three a run", n, runs)
		}
	})
}

// wantTicks compares says in the order of ticks: a tick that waits for others is recorded after
// ticks of a later range.
func (f *fleet) wantTicks(job string, want []string) {
	f.t.Helper()
	got := f.says(job)
	slices.Sort(got)
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			f.t.Errorf("%s: entry %d of the history is %q, want %q; %d entries, want %d", job, i, g, w, len(got), len(want))
			return
		}
	}
}
