package schedule

import (
	"strings"
	"testing"
	"time"
)

// The vectors are reports from the field: a window (from, until], and the ticks that must be in it.
var dstVectors = []struct {
	id, zone, spec string
	from, until    string
	want           string
}{
	{"S01", "America/New_York", "30 2 * * *", "2026-03-07T05:00Z", "2026-03-09T12:00Z", "2026-03-07 07:30; 2026-03-08 07:00; 2026-03-09 06:30"},
	{"S02", "America/New_York", "0 2 * * *", "2026-03-08T05:00Z", "2026-03-09T12:00Z", "2026-03-08 07:00; 2026-03-09 06:00"},
	{"S04", "America/New_York", "*/10 * * * *", "2026-03-08T06:30Z", "2026-03-08T07:35Z", "2026-03-08 06:40,06:50,07:00,07:10,07:20,07:30"},
	{"S05", "America/New_York", "0 */2 * * *", "2026-03-08T05:00Z", "2026-03-08T12:00Z", "2026-03-08 08:00,10:00,12:00"},
	{"S06", "America/New_York", "0 2,3 * * *", "2026-03-08T05:00Z", "2026-03-09T12:00Z", "2026-03-08 07:00; 2026-03-09 06:00,07:00"},
	{"S07", "America/New_York", "30 1 * * *", "2026-11-01T03:00Z", "2026-11-02T12:00Z", "2026-11-01 05:30; 2026-11-02 06:30"},
	{"S08", "America/New_York", "0 * * * *", "2026-11-01T03:00Z", "2026-11-01T09:00Z", "2026-11-01 04:00,05:00,06:00,07:00,08:00,09:00"},
	{"S11", "America/New_York", "0 0-23 * * *", "2026-11-01T03:00Z", "2026-11-01T09:00Z", "2026-11-01 04:00,05:00,07:00,08:00,09:00"},
	{"S12", "Europe/Berlin", "30 2 * * *", "2026-10-24T22:00Z", "2026-10-26T06:00Z", "2026-10-25 00:30; 2026-10-26 01:30"},
	{"S13", "Europe/London", "30 1 * * *", "2026-03-28T22:00Z", "2026-03-30T06:00Z", "2026-03-29 01:00; 2026-03-30 00:30"},
	{"S14", "Europe/London", "30 1 * * *", "2026-10-24T22:00Z", "2026-10-26T06:00Z", "2026-10-25 00:30; 2026-10-26 01:30"},
	{"S16", "Australia/Lord_Howe", "45 1 * * *", "2026-04-04T10:00Z", "2026-04-05T20:00Z", "2026-04-04 14:45; 2026-04-05 15:15"},
	{"S19", "Australia/Lord_Howe", "0 */4 * * *", "2026-10-03T12:00Z", "2026-10-04T03:00Z", "2026-10-03 13:30,17:00,21:00; 2026-10-04 01:00"},
	{"S22", "America/Santiago", "@weekly", "2026-09-04T12:00Z", "2026-09-14T12:00Z", "2026-09-06 04:00; 2026-09-13 03:00"},
	{"S24", "America/Santiago", "30 23 * * *", "2026-04-04T12:00Z", "2026-04-06T12:00Z", "2026-04-05 02:30; 2026-04-06 03:30"},
	{"S28", "Africa/Cairo", "@daily", "2026-04-23T12:00Z", "2026-04-25T12:00Z", "2026-04-23 22:00; 2026-04-24 21:00"},
	{"S29", "Asia/Beirut", "0 5 * * 6", "2026-03-26T12:00Z", "2026-04-05T12:00Z", "2026-03-28 03:00; 2026-04-04 02:00"},
	{"S31", "America/Havana", "0 5 * * 6", "2026-03-06T12:00Z", "2026-03-16T12:00Z", "2026-03-07 10:00; 2026-03-14 09:00"},
	{"S33", "Atlantic/Azores", "0 5 * * 6", "2026-03-27T12:00Z", "2026-04-05T12:00Z", "2026-03-28 06:00; 2026-04-04 05:00"},
	{"S34", "Antarctica/Troll", "30 1 * * *", "2026-03-28T22:00Z", "2026-03-30T06:00Z", "2026-03-29 01:00,23:30"},
	{"S36", "Pacific/Chatham", "0 3 * * *", "2026-09-26T10:00Z", "2026-09-27T20:00Z", "2026-09-26 14:00; 2026-09-27 13:15"},
	{"S37", "America/Nuuk", "30 23 * * *", "2026-03-28T18:00Z", "2026-03-30T06:00Z", "2026-03-29 01:00; 2026-03-30 00:30"},
	{"S39", "America/Sao_Paulo", "0 5 * * 6", "2018-11-03T06:00Z", "2018-11-12T12:00Z", "2018-11-03 08:00; 2018-11-10 07:00"},
	{"S40", "Asia/Kathmandu", "0 * * * *", "2026-01-01T00:00Z", "2026-01-01T03:00Z", "2026-01-01 00:15,01:15,02:15"},

	{"M04 Stockholm", "Europe/Stockholm", "0 7 * * *", "2020-07-16T12:00Z", "2020-07-17T12:00Z", "2020-07-17 05:00"},
	{"M04 Tokyo", "Asia/Tokyo", "0 7 * * *", "2020-07-16T12:00Z", "2020-07-17T12:00Z", "2020-07-16 22:00"},
	{"M06 summer", "America/Chicago", "0 0 * * *", "2026-07-01T00:00Z", "2026-07-02T00:00Z", "2026-07-01 05:00"},
	{"M06 winter", "America/Chicago", "0 0 * * *", "2026-01-01T00:00Z", "2026-01-02T00:00Z", "2026-01-01 06:00"},
	{"M07", "America/New_York", "@hourly", "2026-11-01T04:00Z", "2026-11-01T08:00Z", "2026-11-01 05:00,06:00,07:00,08:00"},

	// Seconds never make a wildcard; what falls into one minute of a gap is one tick.
	{"seconds in a gap", "America/New_York", "*/10 30 2 * * *", "2026-03-08T05:00Z", "2026-03-08T12:00Z", "2026-03-08 07:00"},
	{"seconds past the minute in a gap", "America/New_York", "15 30 2 * * *", "2026-03-08T05:00Z", "2026-03-08T12:00Z", "2026-03-08 07:00"},
	{"seconds in a fold", "America/New_York", "*/30 30 1 * * *", "2026-11-01T03:00Z", "2026-11-01T12:00Z", "2026-11-01 05:30,05:30:30"},
	{"a time in the minute after the gap stands for it", "America/New_York", "30 0 2,3 * * *", "2026-03-08T05:00Z", "2026-03-08T12:00Z", "2026-03-08 07:00:30"},

	{"wildcard minute in a gap", "America/New_York", "*/20 2 * * *", "2026-03-07T12:00Z", "2026-03-09T06:30Z", "2026-03-09 06:00,06:20"},
	{"wildcard minute in a fold", "America/New_York", "*/30 1 * * *", "2026-11-01T03:00Z", "2026-11-01T12:00Z", "2026-11-01 05:00,05:30,06:00,06:30"},
	{"question mark is a wildcard", "America/New_York", "30 ? * * *", "2026-11-01T04:00Z", "2026-11-01T08:00Z", "2026-11-01 04:30,05:30,06:30,07:30"},
	{"a list that begins with a star is a wildcard", "America/New_York", "30 *,5 * * *", "2026-11-01T04:00Z", "2026-11-01T08:00Z", "2026-11-01 04:30,05:30,06:30,07:30"},
	{"a list that ends with a star is fixed", "America/New_York", "30 5,* * * *", "2026-11-01T04:00Z", "2026-11-01T08:00Z", "2026-11-01 04:30,05:30,07:30"},
	{"every minute of a gap is one tick", "America/New_York", "0-59 2 * * *", "2026-03-08T05:00Z", "2026-03-08T12:00Z", "2026-03-08 07:00"},
	{"gap and fold of two hours", "Antarctica/Troll", "30 1,2 * * *", "2026-10-24T22:00Z", "2026-10-25T06:00Z", "2026-10-24 23:30; 2026-10-25 00:30"},

	// Three hours are the last change that counts as one of daylight saving.
	{"gap of three hours", "Antarctica/Casey", "30 4 * * *", "2019-10-03T12:00Z", "2019-10-05T00:00Z", "2019-10-03 19:00; 2019-10-04 17:30"},
	{"fold of three hours", "Antarctica/Casey", "30 2 * * *", "2020-03-06T18:00Z", "2020-03-08T20:00Z", "2020-03-07 15:30; 2020-03-08 18:30"},

	// Samoa left out a day. That is a new calendar, not a gap.
	{"calendar change, fixed", "Pacific/Apia", "0 5 * * *", "2011-12-28T00:00Z", "2012-01-01T00:00Z", "2011-12-28 15:00; 2011-12-29 15:00; 2011-12-30 15:00; 2011-12-31 15:00"},
	{"calendar change, the day itself", "Pacific/Apia", "0 5 30 * *", "2011-12-01T00:00Z", "2012-02-01T00:00Z", "2012-01-29 15:00"},
	{"calendar change back", "Pacific/Kwajalein", "0 5 * * *", "1969-09-29T00:00Z", "1969-10-02T00:00Z", "1969-09-29 18:00; 1969-09-30 17:00; 1969-10-01 17:00"},

	{"local mean time changes by odd seconds", "America/New_York", "0 12 * * *", "1883-11-17T00:00Z", "1883-11-20T00:00Z", "1883-11-17 16:56:02; 1883-11-18 16:56:02; 1883-11-19 17:00"},
}

func TestSchedule_ClockChanges(t *testing.T) {
	for _, v := range dstVectors {
		t.Run(v.id, func(t *testing.T) {
			s := mustParse(t, v.zone, v.spec)
			from, until := minute(t, v.from), minute(t, v.until)
			if got := ticks(s, from, until); got != v.want {
				t.Errorf("Next: %s in %s, %s to %s:\n got %s\nwant %s", v.spec, v.zone, v.from, v.until, got, v.want)
			}
			if got := ticksBackwards(s, from, until); got != v.want {
				t.Errorf("Prev: %s in %s, %s to %s:\n got %s\nwant %s", v.spec, v.zone, v.from, v.until, got, v.want)
			}
		})
	}
}

// S46: the two passes of one local hour are two ticks.
func TestSchedule_RepeatedHourHasTwoTicks(t *testing.T) {
	s := mustParse(t, "America/New_York", "0 * * * *")
	first, _ := s.Next(minute(t, "2026-11-01T04:00Z"))
	second, _ := s.Next(first)
	if got, want := first.Format(time.RFC3339)+" "+second.Format(time.RFC3339),
		"2026-11-01T05:00:00Z 2026-11-01T06:00:00Z"; got != want {
		t.Errorf("Next twice: got %s, want %s", got, want)
	}
	local := func(tick time.Time) string { return tick.In(s.Location()).Format("15:04") }
	if local(first) != "01:00" || local(second) != "01:00" {
		t.Errorf("local times: got %s and %s, want 01:00 twice", local(first), local(second))
	}
}

// S45: EST has no summer time.
func TestSchedule_ESTIsFixed(t *testing.T) {
	s := mustParse(t, "EST", "0 2 * * *")
	for tick := range s.All(minute(t, "2026-01-01T00:00Z")) {
		if tick.Year() > 2026 {
			break
		}
		if got := tick.Format("15:04"); got != "07:00" {
			t.Fatalf("tick %s: got %s, want 07:00 all year", tick, got)
		}
	}
	if len(s.Warnings()) == 0 || !strings.Contains(s.Warnings()[0], "fixed") {
		t.Errorf("Warnings: got %q, want one that says fixed", s.Warnings())
	}
}

func mustParse(tb testing.TB, zone string, specs ...string) *Schedule {
	tb.Helper()
	s, err := Parse(zone, specs...)
	if err != nil {
		tb.Fatalf("Parse(%q, %q): %v", zone, specs, err)
	}
	return s
}

func minute(tb testing.TB, text string) time.Time {
	tb.Helper()
	t, err := time.Parse("2006-01-02T15:04Z07:00", text)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// ticks lists the ticks in (from, until] the way the vectors are written: a date, its times, the
// next date.
func ticks(s *Schedule, from, until time.Time) string {
	var list []time.Time
	for t, ok := s.Next(from); ok && !t.After(until); t, ok = s.Next(t) {
		list = append(list, t)
	}
	return written(list)
}

func ticksBackwards(s *Schedule, from, until time.Time) string {
	var list []time.Time
	for t, ok := s.Prev(until.Add(time.Nanosecond)); ok && t.After(from); t, ok = s.Prev(t) {
		list = append([]time.Time{t}, list...)
	}
	return written(list)
}

func written(list []time.Time) string {
	var b strings.Builder
	date := ""
	for i, t := range list {
		switch day := t.Format("2006-01-02"); {
		case day == date:
			b.WriteString(",")
		case i > 0:
			b.WriteString("; " + day + " ")
		default:
			b.WriteString(day + " ")
		}
		date = t.Format("2006-01-02")
		if t.Second() == 0 {
			b.WriteString(t.Format("15:04"))
		} else {
			b.WriteString(t.Format("15:04:05"))
		}
	}
	return b.String()
}
