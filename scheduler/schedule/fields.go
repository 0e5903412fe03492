package schedule

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/robfig/cron/v3"
)

const secondsPerDay = 24 * 60 * 60

// fields says which local seconds match: bit n of hour is set when hour n does. Local seconds are
// counted as if the local clock were UTC, so that a day has 86,400 of them and weekdays are
// arithmetic.
type fields struct {
	second, minute, hour, dayOfMonth, month, dayOfWeek uint64

	// The test for a restricted day field is on its text, not on its bits: */1 and 1-31 allow the
	// same days, and only the first makes both fields necessary.
	eitherDay bool // both day fields are restricted: a day matches either, else both

	first, last int64     // the earliest and the latest match of a day, in seconds after midnight
	weekdays    [7]uint64 // which days of a month match dayOfWeek, by the weekday of the 1st
}

// newFields reads six fields that the strict check has passed and rewritten; the parser by itself
// accepts "+5", "*-5" and an empty list, and knows no 7 for Sunday. Only its bit
// sets are used: its own walk skips ticks in a gap and doubles them in a fold.
func newFields(six string, eitherDay bool) (fields, error) {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(six)
	if err != nil {
		return fields{}, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fields{}, fmt.Errorf("parsed as %T", parsed)
	}
	// The parser marks a field with a star at bit 63.
	const value = 1<<63 - 1
	f := fields{
		second: spec.Second & value, minute: spec.Minute & value, hour: spec.Hour & value,
		dayOfMonth: spec.Dom & value, month: spec.Month & value, dayOfWeek: spec.Dow & value,
		eitherDay: eitherDay,
	}
	for weekday := range f.weekdays {
		for day := 1; day <= 31; day++ {
			f.weekdays[weekday] |= (f.dayOfWeek >> ((weekday + day - 1) % 7) & 1) << day
		}
	}
	f.first = clock(bits.TrailingZeros64(f.hour), bits.TrailingZeros64(f.minute), bits.TrailingZeros64(f.second))
	f.last = clock(bits.Len64(f.hour)-1, bits.Len64(f.minute)-1, bits.Len64(f.second)-1)
	return f, nil
}

// possible reports whether any date matches. Over 400 years each date of the calendar falls on
// each weekday, so the day of week takes none away.
func (f *fields) possible() bool {
	const leapYear = 2000
	for month := time.January; month <= time.December; month++ {
		if f.month>>month&1 != 0 && (f.eitherDay || f.dayOfMonth&daysOf(leapYear, month) != 0) {
			return true
		}
	}
	return false
}

// daysOf is the set of the days that a month has.
func daysOf(year int, month time.Month) uint64 {
	const shorter = 1<<time.April | 1<<time.June | 1<<time.September | 1<<time.November
	length := 31
	switch {
	case shorter>>month&1 != 0:
		length = 30
	case month == time.February && year%4 == 0 && (year%100 != 0 || year%400 == 0):
		length = 29
	case month == time.February:
		length = 28
	}
	return 1<<(length+1) - 2
}
