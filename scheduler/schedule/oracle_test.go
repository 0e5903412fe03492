package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The windows hold a clock change each, with a day before and two after it.
var changeDays = []struct{ zone, date string }{
	{"America/New_York", "2026-03-08"},
	{"America/New_York", "2026-11-01"},
	{"Australia/Lord_Howe", "2026-04-05"},
	{"Australia/Lord_Howe", "2026-10-04"},
	{"America/Santiago", "2026-04-05"},
	{"America/Santiago", "2026-09-06"},
	{"Antarctica/Troll", "2026-03-29"},
	{"Antarctica/Troll", "2026-10-25"},
	{"Antarctica/Casey", "2019-10-04"},
	{"Antarctica/Casey", "2020-03-08"},
	{"Pacific/Chatham", "2026-04-05"},
	{"Pacific/Chatham", "2026-09-27"},
	{"Atlantic/Azores", "2026-03-29"},
	{"Atlantic/Azores", "2026-10-25"},
	{"America/Havana", "2026-03-08"},
	{"America/Havana", "2026-11-01"},
	{"Asia/Beirut", "2026-03-29"},
	{"Asia/Beirut", "2026-10-25"},
	{"Pacific/Apia", "2011-09-24"},
	{"Pacific/Apia", "2011-12-30"},
	{"Pacific/Kwajalein", "1969-10-01"},
	{"Africa/Casablanca", "2026-02-15"},
	{"Africa/Casablanca", "2026-03-22"},
	{"Europe/Dublin", "2026-03-29"},
	{"Europe/Dublin", "2026-10-25"},
	{"America/Nuuk", "2026-03-29"},
	{"America/Nuuk", "2060-10-31"},
	{"Europe/Berlin", "2096-03-25"},
	{"UTC", "2040-12-31"},
	{"America/New_York", "2040-12-31"},
}

// TestSchedule_AgreesWithSimulatedCron runs ISC cron's loop minute by minute through each change,
// and compares every start with Next and with Prev.
func TestSchedule_AgreesWithSimulatedCron(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, day := range changeDays {
		t.Run(day.zone+" "+day.date, func(t *testing.T) {
			location, err := time.LoadLocation(day.zone)
			if err != nil {
				t.Fatal(err)
			}
			date, err := time.Parse(time.DateOnly, day.date)
			if err != nil {
				t.Fatal(err)
			}
			from, until := date.Add(-36*time.Hour), date.Add(60*time.Hour)
			specs := []string{
				"* * * * *", "*/7 * * * *", "0 * * * *", "59 * * * *", "0 */2 * * *", "*/15 1-3 * * *",
				"30 2 * * *", "0 0 * * *", "0 0-23 * * *", "0-59 0-3 * * *", "59 23 * * *", "1,31 0,1,2,3 * * *",
				"15,45 * */2 * *", "30 1 * * 0", "0 3 1-7 * 0", "0 3 */2 * 0", "*/10 2,3 * * 6,0",
			}
			for range 25 {
				specs = append(specs, randomSpec(random))
			}
			for _, spec := range specs {
				s := mustParse(t, day.zone, spec)
				want := simulate(location, readNaively(t, spec), from, until)
				var got []time.Time
				for tick, ok := s.Next(from); ok && !tick.After(until); tick, ok = s.Next(tick) {
					got = append(got, tick)
				}
				if !slices.Equal(got, want) {
					t.Errorf("Next, %q in %s: got %s", spec, day.zone, firstDifference(got, want))
				}
				var back []time.Time
				for tick, ok := s.Prev(until.Add(1)); ok && tick.After(from); tick, ok = s.Prev(tick) {
					back = append(back, tick)
				}
				slices.Reverse(back)
				if !slices.Equal(back, want) {
					t.Errorf("Prev, %q in %s: got %s", spec, day.zone, firstDifference(back, want))
				}
			}
		})
	}
}

// naive is a spec as five sets of numbers.
type naive struct {
	sets     [5]map[int]bool
	wildcard bool
	either   bool
}

func readNaively(t *testing.T, spec string) naive {
	t.Helper()
	bounds := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	texts := strings.Fields(spec)
	atoi := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("spec %q: %v", spec, err)
		}
		return n
	}
	var n naive
	for i, text := range texts {
		n.sets[i] = map[int]bool{}
		for item := range strings.SplitSeq(text, ",") {
			base, stepText, hasStep := strings.Cut(item, "/")
			low, high, step := bounds[i][0], bounds[i][1], 1
			if hasStep {
				step = atoi(stepText)
			}
			if base != "*" {
				first, last, isRange := strings.Cut(base, "-")
				low, high = atoi(first), atoi(first)
				if isRange {
					high = atoi(last)
				}
			}
			for value := low; value <= high; value += step {
				n.sets[i][value] = true
			}
		}
	}
	star := func(i int) bool { return strings.HasPrefix(texts[i], "*") }
	n.wildcard = star(0) || star(1)
	n.either = !star(2) && !star(4)
	return n
}

// matches takes a local minute, counted as if the local clock were UTC.
func (n naive) matches(local int64) bool {
	t := time.Unix(local*60, 0).UTC()
	if !n.sets[0][t.Minute()] || !n.sets[1][t.Hour()] || !n.sets[3][int(t.Month())] {
		return false
	}
	date, weekday := n.sets[2][t.Day()], n.sets[4][int(t.Weekday())]
	if n.either {
		return date || weekday
	}
	return date && weekday
}

// simulate is the loop of ISC cron 4.1 (cron.c, main). It wakes once a minute and knows two times: the
// local clock, and the virtual minute up to which fixed times have had their turn. Cron's special
// case for jumps of up to five minutes, a slow machine, is left out.
func simulate(location *time.Location, spec naive, from, until time.Time) (starts []time.Time) {
	localMinute := func(t time.Time) int64 {
		_, offset := t.In(location).Zone()
		return floorDiv(t.Unix()+int64(offset), 60)
	}
	virtual := localMinute(from)
	for t := from.Add(time.Minute); !t.After(until); t = t.Add(time.Minute) {
		local := localMinute(t)
		run := false
		jump := local - virtual - 1
		switch {
		case jump > 180 || jump < -180:
			run, virtual = spec.matches(local), local
		case spec.wildcard:
			run = spec.matches(local)
			virtual = max(virtual, local)
		default:
			for ; virtual < local; virtual++ {
				run = run || spec.matches(virtual+1)
			}
		}
		if run {
			starts = append(starts, t.UTC())
		}
	}
	return starts
}

// randomSpec makes specs that a naive reader understands and that have a tick in most weeks.
func randomSpec(random *rand.Rand) string {
	field := func(low, high int) string {
		switch random.IntN(5) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+random.IntN(high-low+1))
		case 2:
			first := low + random.IntN(high-low+1)
			return fmt.Sprintf("%d-%d", first, first+random.IntN(high-first+1))
		case 3:
			first := low + random.IntN(high-low+1)
			return fmt.Sprintf("%d-%d/%d", first, high, 1+random.IntN(4))
		default:
			return fmt.Sprintf("%d,%d", low+random.IntN(high-low+1), low+random.IntN(high-low+1))
		}
	}
	days := [][2]string{{"*", "*"}, {"*", "*"}, {field(1, 31), "*"}, {"*", field(0, 6)}, {field(1, 28), field(0, 6)}}
	chosen := days[random.IntN(len(days))]
	hours := field(0, 23)
	if random.IntN(2) == 0 {
		hours = field(0, 4) // where clocks change
	}
	return fmt.Sprintf("%s %s %s * %s", field(0, 59), hours, chosen[0], chosen[1])
}

func firstDifference(got, want []time.Time) string {
	for i := range min(len(got), len(want)) {
		if !got[i].Equal(want[i]) {
			return fmt.Sprintf("tick %d at %s, want %s", i, got[i].Format(time.RFC3339), want[i].Format(time.RFC3339))
		}
	}
	return fmt.Sprintf("%d ticks, want %d; both begin alike", len(got), len(want))
}

// TestSchedule_AgreesSecondBySecond does the same for specs with seconds, which ISC cron has not,
// from the rule as the package comment states it.
func TestSchedule_AgreesSecondBySecond(t *testing.T) {
	changes := []struct{ zone, instant string }{
		{"America/New_York", "2026-03-08T07:00Z"},
		{"America/New_York", "2026-11-01T06:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T15:30Z"},
		{"Africa/Monrovia", "1972-01-07T00:44Z"}, // a gap that ends at 00:44:30 UTC
		{"Pacific/Apia", "2011-12-30T10:00Z"},
	}
	specs := []string{
		"*/10 30 2 * * *", "15 30 2 * * *", "30 0 2,3 * * *", "*/20 * * * * *", "59 59 1 * * *", "5-50/15 0-59/20 0-4 * * *",
		"0 0 0-23 * * *", "45 */7 2,3 * * *", "10 44,45 0 * * *",
	}
	for _, change := range changes {
		for _, spec := range specs {
			s := mustParse(t, change.zone, spec)
			at := minute(t, change.instant)
			from, until := at.Add(-150*time.Minute), at.Add(150*time.Minute)
			want := bySecond(t, s.Location(), spec, from, until)
			got := slices.Collect(func(yield func(time.Time) bool) {
				for tick := range s.All(from) {
					if tick.After(until) || !yield(tick) {
						return
					}
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("All, %q in %s: got %s", spec, change.zone, firstDifference(got, want))
			}
		}
	}
}

// bySecond looks at each second of a window that holds at most one change.
func bySecond(t *testing.T, location *time.Location, spec string, from, until time.Time) (want []time.Time) {
	t.Helper()
	secondText, rest, _ := strings.Cut(spec, " ")
	minutes, seconds := readNaively(t, rest), readNaively(t, secondText+" 0 1 1 0").sets[0]
	matches := func(local int64) bool {
		return seconds[int(floorMod(local, 60))] && minutes.matches(floorDiv(local, 60))
	}
	localSecond := func(x int64) int64 {
		_, offset := time.Unix(x, 0).In(location).Zone()
		return x + int64(offset)
	}
	reached := localSecond(from.Unix()) + 1
	for x := from.Unix() + 1; x <= until.Unix(); x++ {
		local := localSecond(x)
		if skip := local - reached; skip > 3*60*60 || skip < -3*60*60 {
			reached = local
		}
		tick := matches(local) && (minutes.wildcard || local >= reached)
		if !minutes.wildcard && !tick && local > reached {
			missed, soon := false, false
			for ; reached < local; reached++ {
				missed = missed || matches(reached)
			}
			for later := local; later%60 != 0 || later == local; later++ {
				soon = soon || matches(later)
			}
			tick = missed && !soon
		}
		reached = max(reached, local+1)
		if tick {
			want = append(want, time.Unix(x, 0).UTC())
		}
	}
	return want
}
