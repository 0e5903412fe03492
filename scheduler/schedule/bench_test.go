package schedule

import (
	"testing"
	"time"
)

func BenchmarkSchedule_Next(b *testing.B) {
	for _, c := range []struct{ name, zone, spec string }{
		{"every second", "UTC", "* * * * * *"},
		{"every minute", "America/New_York", "* * * * *"},
		{"daily", "America/New_York", "30 2 * * *"},
		{"interval", "UTC", "@every 90s"},
		{"leap days", "UTC", "0 0 29 2 *"},
		{"Sundays on leap days", "America/New_York", "0 0 29 2 */7"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustParse(b, c.zone, c.spec)
			start := minute(b, newYear)
			b.ReportAllocs()
			at := start
			for b.Loop() {
				if at, _ = s.Next(at); at.Year() >= 2049 {
					at = start
				}
			}
		})
	}
	b.Run("rules after 2050", func(b *testing.B) {
		s := mustParse(b, "America/New_York", "30 2 * * *")
		at := time.Date(2060, time.January, 1, 0, 0, 0, 0, time.UTC)
		b.ReportAllocs()
		for b.Loop() {
			s.Next(at)
		}
	})
}

// One op is one tick.
func BenchmarkSchedule_All(b *testing.B) {
	for name, specs := range map[string][]string{
		"one spec":   {"* * * * *"},
		"four specs": {"*/5 * * * *", "3 * * * *", "30 2 * * *", "@every 7m"},
	} {
		b.Run(name, func(b *testing.B) {
			s := mustParse(b, "America/New_York", specs...)
			n := 0
			for range s.All(minute(b, newYear)) {
				if n++; n >= b.N {
					break
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, "America/New_York", "30 2 * * *")
	}
}
