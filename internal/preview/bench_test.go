package preview

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"rota/scheduler"
	"rota/scheduler/schedule"
)

// thousand is a table of 1,000 jobs with ten million ticks a year: a few of them come every five minutes, a
// tenth daily, the others once an hour, some at the same minute, and all policies are among them.
func thousand(tb testing.TB) []Job {
	tb.Helper()
	overlaps := []scheduler.Overlap{scheduler.OverlapSkip, scheduler.OverlapQueue, scheduler.OverlapReplace, scheduler.OverlapAllow}
	var out []Job
	for i := range 1000 {
		spec := fmt.Sprintf("%d * * * *", i*7%60)
		switch {
		case i%200 < 5:
			spec = "*/5 * * * *"
		case i%20 < 2:
			spec = fmt.Sprintf("%d 2 * * *", i%7)
		}
		rule, err := schedule.Parse("Europe/Berlin", spec)
		if err != nil {
			tb.Fatal(err)
		}
		j := Job{Job: scheduler.Job{Name: fmt.Sprintf("job-%d", i), Schedule: rule, Counts: i%2 == 0, Overlap: overlaps[i%4]}}
		switch i % 10 {
		case 1:
			j.Durations = []time.Duration{time.Minute, 5 * time.Minute, 70 * time.Minute}
		case 2:
			j.Lock = fmt.Sprintf("shared-%d", i%30)
			j.Durations = []time.Duration{20 * time.Second}
		default:
			j.Durations = []time.Duration{time.Second, 2 * time.Second, 10 * time.Second}
		}
		out = append(out, j)
	}
	return out
}

// benchmark replays the thousand jobs over 50 hosts. The memory is the most that the heap held.
func benchmark(b *testing.B, length time.Duration) {
	b.Helper()
	opt := Options{
		Jobs: thousand(b), Hosts: HostsNamed(50), For: length,
		From: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	var most uint64
	opt.Progress = func(float64) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse+m.StackInuse)
	}
	ticks := int64(0)
	for b.Loop() {
		rep, err := Run(b.Context(), opt)
		if err != nil {
			b.Fatal(err)
		}
		ticks += rep.Ticks.Due
	}
	b.ReportMetric(float64(ticks)/b.Elapsed().Seconds(), "ticks/s")
	b.ReportMetric(float64(ticks)/float64(b.N), "ticks")
	b.ReportMetric(float64(most)/(1<<20), "MiB")
}

func BenchmarkDay(b *testing.B)  { benchmark(b, 24*time.Hour) }
func BenchmarkYear(b *testing.B) { benchmark(b, 365*24*time.Hour) }
