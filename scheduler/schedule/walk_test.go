package schedule

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// enoughSteps bounds one search, instead of a clock: a step looks at one stretch between clock
// changes and takes a microsecond or two at most. Five were the most that any search needed.
const enoughSteps = 10

var someZones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll",
	"Antarctica/Casey", "Pacific/Chatham", "Pacific/Apia", "Pacific/Kwajalein", "Africa/Casablanca", "Europe/Dublin",
	"America/Nuuk", "Asia/Manila", "America/Sitka", "Africa/Monrovia", "Asia/Gaza", "EST",
}

// randomInstant covers the years 1 to 9999, with most of the weight where clocks change.
func randomInstant(random *rand.Rand) time.Time {
	switch random.IntN(4) {
	case 0:
		return time.Unix(minTick+random.Int64N(maxTick-minTick), 0)
	case 1:
		return time.Unix(random.Int64N(8e9)-4e9, random.Int64N(1e9))
	default:
		return time.Date(2000+random.IntN(70), time.Month(1+random.IntN(12)), 1+random.IntN(28),
			random.IntN(4), random.IntN(60), random.IntN(60), 0, time.UTC)
	}
}

func randomSchedule(tb testing.TB, random *rand.Rand) *Schedule {
	tb.Helper()
	spec := func() string {
		switch random.IntN(8) {
		case 0:
			return []string{"@every 7h", "@every 90s", "@every 1d", "@every 100000s", "@every 3650d"}[random.IntN(5)]
		case 1:
			return []string{"0 0 29 2 *", "30 2 29 2 */7", "@yearly", "30 2 8-14 3 */7", "0 0 31 * *", "0 0 29 2 1"}[random.IntN(6)]
		case 2:
			return []string{"*/20 ", "30 ", "0-59 ", "7,53 "}[random.IntN(4)] + randomSpec(random)
		default:
			return randomSpec(random)
		}
	}
	specs := []string{spec()}
	for random.IntN(3) == 0 {
		specs = append(specs, spec())
	}
	return mustParse(tb, someZones[random.IntN(len(someZones))], specs...)
}

// checkWalk holds Next, Prev, All and Count against each other around one instant.
func checkWalk(tb testing.TB, s *Schedule, at time.Time) {
	tb.Helper()
	for i := range s.rules {
		c := cursor{rule: &s.rules[i]}
		c.from(secondAfter(at))
		c.upTo(secondBefore(at))
		if c.steps > enoughSteps {
			tb.Errorf("%s at %s: took %d steps, want at most %d", s, at, c.steps, enoughSteps)
		}
	}
	next, hasNext := s.Next(at)
	if hasNext {
		if !next.After(at) || next.Nanosecond() != 0 || next.Location() != time.UTC {
			tb.Errorf("%s: Next(%s) = %s, want a later whole second in UTC", s, at, next)
		}
		if again, ok := s.Next(next.Add(-1)); !ok || !again.Equal(next) {
			tb.Errorf("%s: Next just before %s = %s, %v, want that tick", s, next, again, ok)
		}
		if back, ok := s.Prev(next.Add(1)); !ok || !back.Equal(next) {
			tb.Errorf("%s: Prev just after %s = %s, %v, want that tick", s, next, back, ok)
		}
		if back, ok := s.Prev(next); ok && back.After(at) {
			tb.Errorf("%s: Prev(%s) = %s, but Next(%s) passed it over", s, next, back, at)
		}
	}
	prev, hasPrev := s.Prev(at)
	if hasPrev {
		if !prev.Before(at) || prev.Nanosecond() != 0 || prev.Location() != time.UTC {
			tb.Errorf("%s: Prev(%s) = %s, want an earlier whole second in UTC", s, at, prev)
		}
		if again, ok := s.Next(prev.Add(-1)); !ok || !again.Equal(prev) {
			tb.Errorf("%s: Next just before %s = %s, %v, want that tick", s, prev, again, ok)
		}
		if forth, ok := s.Next(prev); ok && forth.Before(at) {
			tb.Errorf("%s: Next(%s) = %s, but Prev(%s) passed it over", s, prev, forth, at)
		}
	}
	walked, last := at, at
	n := 0
	for tick := range s.All(at) {
		if walked, _ = s.Next(walked); !walked.Equal(tick) {
			tb.Errorf("%s: All(%s) yields %s, Next says %s", s, at, tick, walked)
		}
		last = tick
		if n++; n == 5 {
			break
		}
	}
	if n == 0 && hasNext {
		tb.Errorf("%s: All(%s) yields nothing, Next says %s", s, at, next)
	}
	got, first, end := s.Count(at, last, 100)
	if n > 0 && (got != n || !first.Equal(next) || !end.Equal(last)) {
		tb.Errorf("%s: Count(%s, %s) = %d, %s, %s, want %d ticks from %s", s, at, last, got, first, end, n, next)
	}
}

func TestSchedule_NextAndPrevAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for range 400 {
		s := randomSchedule(t, random)
		for range 25 {
			checkWalk(t, s, randomInstant(random))
		}
		// The seconds around a clock change, and around the ends of the known years.
		known := s.rules[0].zone.known
		for _, p := range []period{known[random.IntN(len(known))], known[0], known[len(known)-1]} {
			for _, edge := range []int64{p.start, p.end} {
				if edge > minTick && edge < maxTick {
					checkWalk(t, s, time.Unix(edge-2+random.Int64N(4), random.Int64N(2)))
				}
			}
		}
	}
}

func TestSchedule_EndsOfTime(t *testing.T) {
	extremes := []time.Time{
		{},
		time.Unix(math.MinInt64, 0), time.Unix(math.MaxInt64+minTick, 999_999_999), // the last one that time.Time can hold
		time.Unix(math.MinInt64/2, 0),
		time.Unix(math.MaxInt64/2, 0), time.Unix(minTick, 0), time.Unix(maxTick, 0), time.Unix(maxTick, 1),
		time.Unix(0, 0), time.Unix(-1, 1), time.Unix(minTick-1, 0), time.Unix(maxTick+1, 0),
	}
	for _, zone := range []string{"UTC", "America/New_York", "Pacific/Kiritimati", "Asia/Manila"} {
		for _, spec := range []string{"* * * * *", "0 0 29 2 *", "@yearly", "* * * * * *", "@every 7h", "30 1 * * *"} {
			s := mustParse(t, zone, spec)
			for _, at := range extremes {
				checkWalk(t, s, at)
			}
			for _, seconds := range []int64{maxTick, math.MaxInt64} {
				if tick, ok := s.Next(time.Unix(seconds, 0)); ok {
					t.Errorf("%s: Next after the year 9999 = %s", s, tick)
				}
			}
			if tick, ok := s.Prev(time.Unix(minTick, 0)); ok {
				t.Errorf("%s: Prev before the year 1 = %s", s, tick)
			}
			if _, ok := s.Next(time.Unix(math.MinInt64, 0)); !ok {
				t.Errorf("%s: Next from the beginning of time found nothing", s)
			}
			if _, ok := s.Prev(time.Unix(math.MaxInt64+minTick, 0)); !ok {
				t.Errorf("%s: Prev from the end of time found nothing", s)
			}
		}
	}
}

// Leap days lie up to eight years apart, on a given weekday up to forty.
func TestSchedule_SparseTakesFewSteps(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Africa/Casablanca", "UTC"} {
		for _, spec := range []string{"0 0 29 2 1", "30 2 29 2 */7", "0 0 29 2 *", "*/10 2 14 3 *", "30 2 8-14 3 */7"} {
			s := mustParse(t, zone, spec)
			for _, year := range []int{1, 1582, 1883, 1969, 1999, 2026, 2049, 2087, 2096, 2104, 2399, 9000} {
				checkWalk(t, s, time.Date(year, time.March, 1, 0, 0, 0, 0, time.UTC))
			}
		}
	}
}

func TestSchedule_UnionMergesInstants(t *testing.T) {
	s := mustParse(t, "Europe/Berlin", "0 2 * * *", "TZ=UTC 0 1 * * *", "0 */6 * * *", "@every 12h")
	got := ticks(s, minute(t, "2026-01-01T00:00Z"), minute(t, "2026-01-02T01:00Z"))
	if want := "2026-01-01 01:00,05:00,11:00,12:00,17:00,23:00; 2026-01-02 00:00,01:00"; got != want {
		t.Errorf("union: got %s, want %s", got, want)
	}
}

func TestSchedule_Count(t *testing.T) {
	from := minute(t, newYear)
	for _, c := range []struct {
		spec  string
		until string
		limit int
		want  int
		last  string
	}{
		{"0 * * * *", "2026-01-02T00:00Z", 100, 24, "2026-01-02T00:00Z"},
		{"0 * * * *", "2026-01-01T23:59Z", 100, 23, "2026-01-01T23:00Z"},
		{"0 * * * *", "2026-01-02T00:00Z", 5, 5, "2026-01-01T05:00Z"},
		{"0 * * * *", "2026-01-01T00:30Z", 100, 0, ""},
		{"0 * * * *", "2026-01-02T00:00Z", 0, 0, ""},
		{"0 * * * *", "2025-01-02T00:00Z", 100, 0, ""},
		{"@every 1s", "2027-01-01T00:00Z", math.MaxInt, 365 * 86400, "2027-01-01T00:00Z"},
		{"@every 1s", "2027-01-01T00:00Z", 60, 60, "2026-01-01T00:01Z"},
		{"@every 7h", "2026-01-01T14:00Z", 100, 2, "2026-01-01T14:00Z"},
		{"@every 7h", "2026-01-01T06:59Z", 100, 0, ""},
		{"@every 7h", "2026-01-02T00:00Z", -1, 0, ""},
	} {
		n, first, last := mustParse(t, "UTC", c.spec).Count(from, minute(t, c.until), c.limit)
		if n != c.want || n > 0 && (!last.Equal(minute(t, c.last)) || !first.After(from)) {
			t.Errorf("Count of %q to %s, limit %d: got %d, %s to %s, want %d to %s", c.spec, c.until, c.limit, n, first, last, c.want, c.last)
		}
		if n == 0 && !(first.IsZero() && last.IsZero()) {
			t.Errorf("Count of %q to %s: got nothing from %s to %s, want zero times", c.spec, c.until, first, last)
		}
	}
}

func TestSchedule_NextDoesNotAllocate(t *testing.T) {
	s := mustParse(t, "America/New_York", "*/5 * * * *", "30 2 * * *", "@every 90s", "0 0 29 2 *")
	at := minute(t, newYear)
	if n := testing.AllocsPerRun(1000, func() { at, _ = s.Next(at) }); n != 0 {
		t.Errorf("Next: got %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { at, _ = s.Prev(at) }); n != 0 {
		t.Errorf("Prev: got %v allocations, want 0", n)
	}
}
