package tick

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/scheduler"
	"rota/scheduler/schedule"
)

// A month or so of a large table, as the loop walks it. Absolute figures: there is nothing that the
// plan could be measured against.
func BenchmarkPlan(b *testing.B) {
	const jobs, ticks = 1000, 10_000_000
	for _, c := range []struct {
		name string
		spec func(i int) (zone, spec string)
	}{
		{"every minute", func(int) (string, string) { return "UTC", "* * * * *" }},
		{"mixed", mixed},
	} {
		b.Run(c.name, func(b *testing.B) {
			table := make([]scheduler.Job, jobs)
			for i := range table {
				zone, spec := c.spec(i)
				s, err := schedule.Parse(zone, spec)
				if err != nil {
					b.Fatal(err)
				}
				table[i] = scheduler.Job{Name: fmt.Sprintf("job-%04d", i), Schedule: s}
			}
			after := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				var before, behind runtime.MemStats
				runtime.ReadMemStats(&before)
				began, n := time.Now(), 0
				for d := range scheduler.Plan(table, after) {
					if n++; n == ticks {
						b.ReportMetric(d.Tick.Sub(after).Hours()/24, "days-planned")
						break
					}
				}
				took := time.Since(began)
				runtime.ReadMemStats(&behind)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(took)/ticks, "ns/tick")
				b.ReportMetric(sample.Millis(took)/1000, "s/10M-ticks")
				b.ReportMetric(float64(behind.Mallocs-before.Mallocs)/ticks, "allocs/tick")
				b.ReportMetric(float64(behind.TotalAlloc-before.TotalAlloc)/1024, "KiB-in-all")
			}
		})
	}
}

// mixed is a table such as fleets have: much every few minutes, most of the jobs by the hour or
// the day, in three zones, two of which change their clocks.
func mixed(i int) (zone, spec string) {
	zone = []string{"UTC", "Europe/Berlin", "America/New_York"}[i%3]
	switch i % 10 {
	case 0:
		spec = "* * * * *"
	case 1, 2:
		spec = fmt.Sprintf("%d-59/5 * * * *", i/10%5)
	case 3:
		spec = "@every 90s"
	case 4, 5, 6:
		spec = fmt.Sprintf("%d * * * *", i/10%60)
	case 7, 8:
		spec = fmt.Sprintf("%d %d * * *", i/10%60, i/10%24)
	default:
		spec = fmt.Sprintf("%d %d * * 1-5", i/10%60, i/10%24)
	}
	return zone, spec
}
