package preview

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/scheduler"
	"rota/scheduler/schedule"
)

// jobOf makes a job in UTC whose runs all take as long.
func jobOf(t *testing.T, name, spec string, took time.Duration, change func(*Job)) Job {
	t.Helper()
	return jobIn(t, "UTC", name, spec, took, change)
}

func jobIn(t *testing.T, zone, name, spec string, took time.Duration, change func(*Job)) Job {
	t.Helper()
	rule, err := schedule.Parse(zone, spec)
	if err != nil {
		t.Fatal(err)
	}
	j := Job{Job: scheduler.Job{Name: name, Schedule: rule}, Durations: []time.Duration{took}}
	if change != nil {
		change(&j)
	}
	return j
}

func previewOf(t *testing.T, opt Options) *Report {
	t.Helper()
	if opt.From.IsZero() {
		opt.From = time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	}
	rep, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return rep
}

// One job, every ten minutes for an hour from 0:00: six ticks.
func TestRun_DecidesByPolicy(t *testing.T) {
	const min = time.Minute
	for _, tc := range []struct {
		name   string
		took   time.Duration
		change func(*Job)
		hosts  []Host
		want   Ticks
		check  func(*JobReport) bool
	}{
		{name: "short runs", took: min, want: Ticks{Due: 6, Ran: 6}},
		{name: "no duration", want: Ticks{Due: 6, Ran: 6}, check: func(j *JobReport) bool { return j.OverGap == 0 && j.LagMax.Duration() < time.Second }},
		{
			name: "skip", took: 15 * min, want: Ticks{Due: 6, Ran: 3, Skipped: 3, Skips: Skips{Own: 3}},
			check: func(j *JobReport) bool { return j.OverGap == 3 && j.LostShare == 0.5 && j.MostRan == 1 },
		},
		{
			name: "queue", took: 25 * min, change: func(j *Job) { j.Overlap = scheduler.OverlapQueue },
			// The tick of 0:50 is claimed while the run that ends at 0:50 gives its lock back.
			want:  Ticks{Due: 6, Ran: 3, Skipped: 3, Late: 1, Skips: Skips{Superseded: 3}},
			check: func(j *JobReport) bool { return j.LagMax.Duration() > 5*min && j.LagMax.Duration() < 6*min },
		},
		{
			name: "replace", took: 25 * min, change: func(j *Job) { j.Overlap = scheduler.OverlapReplace },
			want: Ticks{Due: 6, Ran: 6}, check: func(j *JobReport) bool { return j.Replaced == 5 && j.Busy > 0.99 && j.LagMax.Duration() < time.Second },
		},
		{
			name: "replace with a grace", took: 25 * min, change: func(j *Job) { j.Overlap, j.KillGrace = scheduler.OverlapReplace, 4*min },
			want: Ticks{Due: 6, Ran: 6}, check: func(j *JobReport) bool { return j.LagP99.Duration() >= 4*min && j.LagMax.Duration() < 5*min },
		},
		{
			name: "allow", took: 25 * min, change: func(j *Job) { j.Overlap = scheduler.OverlapAllow },
			want: Ticks{Due: 6, Ran: 6}, check: func(j *JobReport) bool { return j.MostRan == 3 && j.OverGap == 6 },
		},
		{
			name: "max_parallel", took: 25 * min, change: func(j *Job) { j.Overlap, j.MaxParallel = scheduler.OverlapAllow, 2 },
			want: Ticks{Due: 6, Ran: 4, Skipped: 2, Skips: Skips{Parallel: 2}},
		},
		{
			name: "timeout", took: 15 * min, change: func(j *Job) { j.Timeout = 9 * min },
			want: Ticks{Due: 6, Ran: 6}, check: func(j *JobReport) bool { return j.TimedOut == 6 && j.RunMax.Duration() == 9*min },
		},
		{
			name: "timeout and grace", took: 15 * min, change: func(j *Job) { j.Timeout, j.KillGrace = 9*min, 2*min },
			want: Ticks{Due: 6, Ran: 3, Skipped: 3, Skips: Skips{Own: 3}}, check: func(j *JobReport) bool { return j.RunMax.Duration() == 11*min },
		},
		{name: "disabled", change: func(j *Job) { j.Disabled = true }, check: func(j *JobReport) bool { return j.Disabled && j.Next.IsZero() }},
		{
			name: "no host", change: func(j *Job) { j.Hosts = []string{"db"} }, want: Ticks{Due: 6, Missed: 6, Misses: Misses{NoHost: 6}},
			check: func(j *JobReport) bool { return j.Hosts == 0 },
		},
		{
			name: "on each host", took: 15 * min, change: func(j *Job) { j.Scope = scheduler.ScopeHost },
			want: Ticks{Due: 12, Ran: 6, Skipped: 6, Skips: Skips{Own: 6}}, hosts: HostsNamed(2),
			check: func(j *JobReport) bool { return j.Lock == "j@*" && j.Hosts == 2 && j.MostRan == 1 },
		},
		{
			name: "hosts full", took: 18 * min, change: func(j *Job) { j.Overlap, j.Counts = scheduler.OverlapAllow, true },
			hosts: []Host{{Name: "h", MaxRuns: 1}},
			// The tick of 0:10 finds no place by 0:15; that of 0:20 has one at once, 0:30 again none.
			want:  Ticks{Due: 6, Ran: 3, Missed: 3, Misses: Misses{Full: 3}},
			check: func(j *JobReport) bool { return j.PastDeadline == 3 },
		},
		{
			name: "hosts full for a while", took: 13 * min, change: func(j *Job) { j.Overlap, j.Counts = scheduler.OverlapAllow, true },
			hosts: []Host{{Name: "h", MaxRuns: 1}},
			want:  Ticks{Due: 6, Ran: 4, Missed: 2, Misses: Misses{Full: 2}}, // those of 0:20 and 0:50
		},
		{
			name: "hosts full, misfire once", took: 18 * min, hosts: []Host{{Name: "h", MaxRuns: 1}},
			change: func(j *Job) {
				j.Overlap, j.Counts, j.Misfire = scheduler.OverlapAllow, true, scheduler.MisfireOnce
			},
			// That of 0:10 runs at 0:18, that of 0:30 at 0:36, and that of 0:50 in time.
			want: Ticks{Due: 6, Ran: 4, Missed: 2, Late: 2, Misses: Misses{Full: 2}},
		},
		{
			name: "hosts full, misfire all", took: 18 * min, hosts: []Host{{Name: "h", MaxRuns: 1}},
			change: func(j *Job) {
				j.Overlap, j.Counts, j.Misfire = scheduler.OverlapAllow, true, scheduler.MisfireAll
			},
			want: Ticks{Due: 6, Ran: 4, Waiting: 2, Late: 3},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rep := previewOf(t, Options{Jobs: []Job{jobOf(t, "j", "*/10 * * * *", tc.took, tc.change)}, Hosts: tc.hosts, For: time.Hour})
			j := &rep.Jobs[0]
			if j.Ticks != tc.want {
				t.Errorf("ticks = %+v, want %+v", j.Ticks, tc.want)
			}
			if rep.Ticks != tc.want {
				t.Errorf("all ticks = %+v, want %+v", rep.Ticks, tc.want)
			}
			if tc.check != nil && !tc.check(j) {
				t.Errorf("the job's report: %+v", *j)
			}
		})
	}
}

func TestRun_TellsWhoHoldsASharedLock(t *testing.T) {
	share := func(j *Job) { j.Lock = "db" }
	rep := previewOf(t, Options{For: time.Hour, Jobs: []Job{
		jobOf(t, "long", "0 * * * *", 24*time.Minute, share),
		jobOf(t, "often", "5/10 * * * *", time.Minute, share),
		jobOf(t, "waits", "7 * * * *", 30*time.Second, func(j *Job) { j.Lock, j.Overlap = "db", scheduler.OverlapQueue }),
		jobOf(t, "alone", "0 * * * *", 0, nil),
	}})
	if len(rep.Locks) != 1 {
		t.Fatalf("locks = %+v, want one", rep.Locks)
	}
	l := rep.Locks[0]
	want := []Contended{{"often", "long", 2}, {"waits", "long", 1}}
	if l.Lock != "db" || !slices.Equal(l.Jobs, []string{"long", "often", "waits"}) || l.Held < 3 || !slices.Equal(l.ByPair[:2], want) {
		t.Errorf("lock = %+v, want by %+v", l, want)
	}
	if l.Longest != "waits" || l.MaxWait.Duration() < 17*time.Minute || l.Since.Minute() != 7 {
		t.Errorf("longest wait %s of %s since %s", l.MaxWait, l.Longest, l.Since)
	}
	if l.Busy < 0.45 || l.Busy > 0.55 {
		t.Errorf("busy %.2f, want about half", l.Busy)
	}
	if n := rep.Jobs[1].Skips.Other; n < 2 {
		t.Errorf("often was skipped %d times for another job, want 2", n)
	}
}

func TestRun_FindsThePeaksAndTheHeat(t *testing.T) {
	var table []Job
	for name := range strings.FieldsSeq("a b c d e f g h i j k l") {
		table = append(table, jobOf(t, name, "0 2 * * *", 0, nil))
	}
	table = append(table, jobOf(t, "often", "*/30 * * * *", 0, nil))
	rep := previewOf(t, Options{Jobs: table, For: 3 * 24 * time.Hour})
	p := rep.Peaks[0]
	if p.Ticks != 13 || p.Most != 13 || p.Times != 3 || p.Minute.Format("15:04") != "02:00" || len(p.Jobs) != 13 {
		t.Errorf("peak = %+v", p)
	}
	if h := rep.Heat; !h.Folded || len(h.Fine) != 1440 || h.Cells != 24 || h.Fine[120] != 39 || h.Fine[30] != 3 {
		t.Errorf("heat = %+v", h)
	}
	if c := rep.Jobs[0].Cells; len(c) != 24 || c[2].Ticks != 3 {
		t.Errorf("cells of a = %+v", c)
	}
	if l := rep.Load; l.Ticks != 13 || len(l.Fleets) != 7 || l.Fleets[0].Claims != 13 || l.Fleets[0].Reads != 0 || l.Fleets[6].Reads < 100 {
		t.Errorf("load = %+v", l)
	}
}

func TestRun_TellsWhatClocksDo(t *testing.T) {
	rep := previewOf(t, Options{
		From: time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC), For: 24 * time.Hour,
		Jobs: []Job{
			jobIn(t, "Europe/Berlin", "skipped", "30 2 * * *", 0, nil),
			jobIn(t, "Europe/Berlin", "elapsed", "*/10 * * * *", 0, nil),
			jobIn(t, "Europe/Berlin", "elsewhen", "0 12 * * *", 0, nil),
			jobIn(t, "UTC", "utc", "30 2 * * *", 0, nil),
		},
	})
	if len(rep.Clocks) != 1 || len(rep.Clocks[0].Jobs) != 2 {
		t.Fatalf("clocks = %+v, want one change with two jobs", rep.Clocks)
	}
	c := rep.Clocks[0]
	if c.Zone != "Europe/Berlin" || c.Shift() != time.Hour || c.At.Format(time.RFC3339) != "2026-03-29T01:00:00Z" {
		t.Errorf("change = %+v", c)
	}
	if j := c.Jobs[0]; j.Effect != AfterGap || !j.Tick.Equal(c.At) || !strings.Contains(j.Text, "03:00:00 CEST") {
		t.Errorf("skipped: %+v", j)
	}
	if j := c.Jobs[1]; j.Effect != Elapsed || j.Ticks != 12 {
		t.Errorf("elapsed: %+v", j)
	}
}

func TestRun_AdvisesWhatHelps(t *testing.T) {
	var table []Job
	for name := range strings.FieldsSeq("a b c d e f g h i j k l m n o p") {
		table = append(table, jobOf(t, name, "0 2 * * *", time.Second, nil))
	}
	share := func(j *Job) { j.Lock = "db" }
	table = append(table, jobOf(t, "first", "10 * * * *", 8*time.Minute, share), jobOf(t, "second", "10 * * * *", 8*time.Minute, share))
	rep := previewOf(t, Options{Jobs: table})
	by := map[AdviceKind]Advice{}
	for _, a := range rep.Advice {
		if a.After >= a.Before {
			t.Errorf("%+v does not help", a)
		}
		by[a.Kind] = a
	}
	if a := by[AdviseSplay]; a.Before != 16 || a.After > 4 || len(a.Jobs) != 16 {
		t.Errorf("splay: %+v", a)
	}
	if a := by[AdviseTime]; a.Before != 24 || a.After != 0 || a.Value != "20 * * * *" {
		t.Errorf("time: %+v", a)
	}
	if a := by[AdviseLock]; a.Before != 24 || a.After != 0 || a.Key != "lock" {
		t.Errorf("lock: %+v", a)
	}
	// Who is told so does it.
	i := slices.IndexFunc(table, func(j Job) bool { return j.Name == by[AdviseTime].Jobs[0] })
	table[i].Schedule, _ = schedule.Parse("UTC", by[AdviseTime].Value)
	if got := previewOf(t, Options{Jobs: table}); got.Ticks.Skipped != 0 {
		t.Errorf("with the other minute %d ticks were skipped", got.Ticks.Skipped)
	}
}

func TestRun_GivesNoAdviceThatDoesNotHelp(t *testing.T) {
	rep := previewOf(t, Options{Jobs: []Job{
		jobOf(t, "always", "*/10 * * * *", 15*time.Minute, nil), jobOf(t, "rare", "0 4 * * *", 0, nil),
	}})
	if len(rep.Advice) != 0 {
		t.Errorf("advice = %+v", rep.Advice)
	}
	// The lock is held at any minute that may be tried.
	rep = previewOf(t, Options{Jobs: []Job{
		jobOf(t, "long", "0 * * * *", 54*time.Minute, nil),
		jobOf(t, "short", "30 * * * *", time.Minute, func(j *Job) { j.Lock = "long" }),
	}})
	if len(rep.Advice) != 1 || rep.Advice[0].Kind != AdviseLock {
		t.Errorf("advice = %+v, want only a lock of its own", rep.Advice)
	}
}

func TestRun_Warns(t *testing.T) {
	rep := previewOf(t, Options{Hosts: []Host{{Name: "h", MaxRuns: 1}}, Jobs: []Job{
		jobOf(t, "hostless", "0 * * * *", 0, func(j *Job) { j.Hosts = []string{"db"} }),
		jobOf(t, "long", "*/10 * * * *", 15*time.Minute, nil),
		jobOf(t, "odd", "*/45 * * * *", 0, nil),
		jobOf(t, "yearly", "@yearly", 0, nil),
		jobOf(t, "cut", "5 * * * *", time.Minute, func(j *Job) { j.Timeout = time.Second }),
		jobOf(t, "full", "*/10 * * * *", 18*time.Minute, func(j *Job) { j.Counts, j.Overlap = true, scheduler.OverlapAllow }),
	}})
	for job, kind := range map[string]WarningKind{
		"hostless": WarnNoHost, "long": WarnOverGap, "odd": WarnSchedule, "yearly": WarnNoTicks, "cut": WarnTimeout, "full": WarnFull,
	} {
		if !slices.ContainsFunc(rep.Warnings, func(w Warning) bool { return w.Job == job && w.Kind == kind && w.Text != "" }) {
			t.Errorf("no warning %q of %s in %+v", kind, job, rep.Warnings)
		}
	}
	if rep := previewOf(t, Options{}); len(rep.Warnings) != 1 || rep.Warnings[0].Kind != WarnNoTicks {
		t.Errorf("an empty table: %+v", rep.Warnings)
	}
}

func TestRun_IsTheSameForASeed(t *testing.T) {
	opt := Options{Jobs: thousand(t)[:120], For: 6 * time.Hour, Seed: 7}
	one, two := previewOf(t, opt), previewOf(t, opt)
	if !reflect.DeepEqual(one, two) {
		t.Error("two replays with one seed differ")
	}
	opt.Seed = 8
	if reflect.DeepEqual(one.Jobs, previewOf(t, opt).Jobs) {
		t.Error("another seed gives the same runs")
	}
}

func TestRun_WinsSpreadAndFollowTheNames(t *testing.T) {
	opt := Options{Jobs: []Job{jobOf(t, "j", "* * * * *", 0, nil)}, Hosts: HostsNamed(4)}
	near := previewOf(t, opt)
	for _, h := range near.Hosts {
		if h.Share < 0.2 || h.Share > 0.3 {
			t.Errorf("%s wins %.2f of the ticks, want about a quarter", h.Host, h.Share)
		}
	}
	// Clocks that are wrong by more than a step, and slow claims, let hosts overtake each other.
	opt.Skew = 200 * time.Millisecond
	far := previewOf(t, opt)
	if reflect.DeepEqual(near.Hosts, far.Hosts) {
		t.Error("clocks that are 200 ms wrong change nothing")
	}
	if far.Ticks.Ran != near.Ticks.Ran || far.Jobs[0].LagP50 <= 0 {
		t.Errorf("ran %d of %d, lag %s", far.Ticks.Ran, near.Ticks.Ran, far.Jobs[0].LagP50)
	}
}

func TestRun_RefusesAndEnds(t *testing.T) {
	_, err := Run(t.Context(), Options{For: time.Millisecond, Hosts: []Host{{Name: "a"}, {Name: "a"}}, Jobs: []Job{
		jobOf(t, "j", "* * * * *", -1, nil), jobOf(t, "j", "* * * * *", 0, func(j *Job) { j.KillGrace = -1 }), {},
	}})
	for _, want := range []string{"For is 1ms", `two hosts are called "a"`, `two jobs are called "j"`, "cannot take -1ns", "job 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run: %v, want %q in it", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	opt := Options{Jobs: thousand(t), For: 365 * 24 * time.Hour, Progress: func(float64) { cancel() }}
	if _, err := Run(ctx, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with a context that ends: %v", err)
	}
}

func TestRun_ProgressNeverFalls(t *testing.T) {
	last, calls := 0.0, 0
	previewOf(t, Options{Jobs: thousand(t), Progress: func(share float64) {
		if calls++; share < last || share > 1 {
			t.Errorf("progress %f after %f", share, last)
		}
		last = share
	}})
	if last != 1 || calls < 2 {
		t.Errorf("%d calls, the last %f", calls, last)
	}
}

func TestReport_JSON(t *testing.T) {
	rep := previewOf(t, Options{Jobs: []Job{jobOf(t, "j", "0 * * * *", 1500*time.Microsecond, nil)}})
	b, err := json.Marshal(rep)
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	for k := range strings.FieldsSeq("window hosts ticks jobs peaks locks load clocks advice warnings heat") {
		if v := string(keys[k]); v == "" || v == "null" {
			t.Errorf("%s is %q", k, v)
		}
	}
	for _, want := range []string{`"due":24`, `"run_max_ms":1.5`, `"from":"2026-03-02T00:00:00Z"`, `"next":"2026-03-03T00:00:00Z"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is missing in %s", want, b)
		}
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Jobs[0].RunMax != rep.Jobs[0].RunMax {
		t.Errorf("read back: %v, %+v", err, back.Jobs)
	}
}
