package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rota/jobs"
	"rota/scheduler/schedule"
)

func at(s string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", s)
	if err != nil {
		panic(err)
	}
	return t
}

func take(n int, jobs []Job, after time.Time) []string {
	var out []string
	for d := range Plan(jobs, after) {
		if len(out) == n {
			break
		}
		out = append(out, d.Job.Name+" "+d.Tick.Format("15:04:05"))
	}
	return out
}

func TestPlan_YieldsTicksInOrderOfTheirStart(t *testing.T) {
	table := []Job{
		job(t, "a", "*/2 * * * *", nil),
		job(t, "b", "* * * * *", nil),
		job(t, "off", "* * * * *", nil),
		{Name: "manual"},
	}
	table[2].Disabled = true
	got := take(6, table, at("2026-01-01 00:00:30"))
	want := []string{"b 00:01:00", "a 00:02:00", "b 00:02:00", "b 00:03:00", "a 00:04:00", "b 00:04:00"}
	if !slices.Equal(got, want) {
		t.Errorf("Plan yields %q, want %q", got, want)
	}
}

func TestPlan_AfterIsExclusiveAndPrevIsTheTickBefore(t *testing.T) {
	table := []Job{job(t, "a", "* * * * *", nil)}
	for d := range Plan(table, at("2026-01-01 00:01:00")) {
		if want := at("2026-01-01 00:02:00"); !d.Tick.Equal(want) || !d.Prev.Equal(want.Add(-time.Minute)) || !d.Next.Equal(want.Add(time.Minute)) {
			t.Errorf("first tick is %s after %s before %s, want %s within a minute of both", d.Tick, d.Prev, d.Next, want)
		}
		break
	}
}

func TestPlan_SplayDelaysTheStartNotTheTick(t *testing.T) {
	j := job(t, "a", "* * * * *", nil)
	j.Splay = 30 * time.Second
	delay := j.Delay()
	if delay <= 0 || delay >= j.Splay {
		t.Fatalf("splay of %q is %s, want within (0, %s): choose another name", j.Name, delay, j.Splay)
	}
	for d := range Plan([]Job{j}, at("2026-01-01 00:00:00").Add(delay)) {
		if d.Tick.Second() != 0 || !d.At.Equal(d.Tick.Add(delay)) || !d.Tick.Equal(at("2026-01-01 00:01:00")) {
			t.Errorf("tick %s starts at %s, want 00:01:00 and %s later", d.Tick, d.At, delay)
		}
		break
	}
}

func TestPlan_EndsWithItsSchedules(t *testing.T) {
	if got := take(3, nil, at("2026-01-01 00:00:00")); len(got) != 0 {
		t.Errorf("Plan of no jobs yields %q", got)
	}
}

func TestDue_Deadline(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		set, splay time.Duration
		want       time.Duration // after tick and splay
	}{
		{"half the gap", "0 * * * *", 0, 0, 30 * time.Minute},
		{"at most an hour", "0 0 * * *", 0, 0, time.Hour},
		{"at least 5 s, and never past the next tick", "*/2 * * * * *", 0, 0, 2 * time.Second},
		{"at least 5 s", "*/8 * * * * *", 0, 0, 5 * time.Second},
		{"as set", "0 * * * *", 50 * time.Minute, 0, 50 * time.Minute},
		{"as set, but not past the next tick", "0 * * * *", 3 * time.Hour, 0, time.Hour},
		{"half the gap, after the splay", "0 * * * *", 0, 50 * time.Minute, 30 * time.Minute},
		{"as set, after the splay, and until the next tick starts", "0 * * * *", 3 * time.Hour, 50 * time.Minute, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := job(t, "a", c.spec, nil)
			j.StartDeadline, j.Splay = c.set, c.splay
			tick := at("2026-01-01 00:00:00")
			d := dueAt(&j, 0, tick)
			if got := d.Deadline.Sub(tick.Add(j.Delay())); got != c.want || !d.Tick.Equal(tick) || d.At.Sub(tick) != j.Delay() {
				t.Errorf("deadline of %q with start_deadline %s and splay %s is %s after the start, want %s; tick %s starts at %s",
					c.spec, c.set, c.splay, got, c.want, d.Tick, d.At)
			}
		})
	}
}

// The splay of a job is its own and the same wherever it is asked for; those of many jobs are spread.
func TestJob_DelayIsAHashOfTheName(t *testing.T) {
	const splay = 10 * time.Minute
	minutes := map[time.Duration]int{}
	for i := range 1000 {
		j := Job{Name: fmt.Sprintf("job-%d", i), Splay: splay}
		other := Job{Name: j.Name, Splay: splay, Definition: "edited"}
		d := j.Delay()
		if d != other.Delay() || d < 0 || d >= splay {
			t.Fatalf("%s starts %s after its tick, and %s when it is edited; want the same, below %s", j.Name, d, other.Delay(), splay)
		}
		minutes[d/time.Minute]++
	}
	for m, n := range minutes {
		if n < 50 || n > 150 {
			t.Errorf("%d of 1000 jobs start in minute %d of 10, want about 100", n, m)
		}
	}
	if d := (&Job{Name: "a"}).Delay(); d != 0 {
		t.Errorf("without a splay the delay is %s, want none", d)
	}
	if d := (&Job{Name: "a", Splay: time.Millisecond / 2}).Delay(); d != 0 {
		t.Errorf("with a splay below a millisecond the delay is %s, want none", d)
	}
}

func TestNewest_LastTickThatStarted(t *testing.T) {
	j := job(t, "a", "0 * * * *", nil)
	for _, c := range []struct {
		now  string
		want string
	}{
		{"2026-01-01 01:00:00", "01:00:00"},
		{"2026-01-01 01:29:59", "01:00:00"},
		{"2026-01-01 01:59:59", "01:00:00"},
		{"2026-01-01 02:00:00", "02:00:00"},
	} {
		d, ok := newest(&j, 0, at(c.now))
		got := ""
		if ok {
			got = d.Tick.Format("15:04:05")
		}
		if got != c.want {
			t.Errorf("newest at %s is %q, want %q", c.now, got, c.want)
		}
	}
}

func TestNewestOfEach_KeepsOneTickAJob(t *testing.T) {
	a, b := &Job{Name: "a"}, &Job{Name: "b"}
	tick := at("2026-01-01 00:00:00")
	got := newestOfEach([]Due{
		{Job: a, Index: 0, Tick: tick}, {Job: b, Index: 1, Tick: tick}, {Job: a, Index: 0, Tick: tick.Add(time.Second)},
	})
	if len(got) != 2 || !got[0].Tick.Equal(tick.Add(time.Second)) || got[1].Job != b {
		t.Errorf("newestOfEach kept %v, want the second tick of a, and b", got)
	}
}

func TestRank_IsAPermutationThatSpreads(t *testing.T) {
	hosts := names(5)
	wins := map[string]int{}
	for i := range 1000 {
		name, tick := fmt.Sprintf("job-%d", i), at("2026-01-01 00:00:00")
		seen := map[int]string{}
		for _, h := range hosts {
			r := rank(name, tick, h, hosts)
			if other, ok := seen[r]; ok {
				t.Fatalf("%s: %s and %s have rank %d both", name, h, other, r)
			}
			seen[r] = h
		}
		wins[seen[0]]++
	}
	for h, n := range wins {
		if n > 260 { // max/mean of 1.3 over 1,000 jobs
			t.Errorf("%s comes first for %d of 1000 jobs, want at most 260", h, n)
		}
	}
}

func TestRank_HostAloneComesFirst(t *testing.T) {
	for _, hosts := range [][]string{nil, {"me"}} {
		if r := rank("a", at("2026-01-01 00:00:00"), "me", hosts); r != 0 {
			t.Errorf("rank among %q is %d, want 0", hosts, r)
		}
	}
}

func TestTurn_GrowsToTheLastStep(t *testing.T) {
	step := 30 * time.Millisecond
	for r := range lastStep {
		if got := turn(r, step); got != time.Duration(r)*step {
			t.Errorf("turn(%d) = %s, want %s", r, got, time.Duration(r)*step)
		}
	}
	for range 100 {
		if got := turn(20, step); got < lastStep*step || got >= (lastStep+1)*step {
			t.Errorf("turn(20) = %s, want within a step of %s", got, lastStep*step)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	var table []Job
	for i := range 1000 {
		s, err := schedule.Parse("Europe/Berlin", fmt.Sprintf("%d */2 * * *", i%60))
		if err != nil {
			b.Fatal(err)
		}
		table = append(table, Job{Name: fmt.Sprintf("job-%d", i), Schedule: s, Handler: jobs.Func(nil)})
	}
	n := 0
	for b.Loop() {
		for range Plan(table, at("2026-01-01 00:00:00")) {
			if n++; n%1000 == 0 {
				break
			}
		}
	}
}

func TestWeights_AreTheOrderOfTheRace(t *testing.T) {
	hosts := names(9)
	for minute := range 50 {
		tick := time.Date(2026, time.January, 1, 0, minute, 0, 0, time.UTC)
		weights := Weights(nil, "job", tick, hosts)
		for i, h := range hosts {
			before := 0
			for _, w := range weights {
				if w < weights[i] {
					before++
				}
			}
			if r := rank("job", tick, h, hosts); r != before {
				t.Errorf("%s at %s: %d hosts have a smaller weight, its rank is %d", h, tick, before, r)
			}
		}
	}
}
