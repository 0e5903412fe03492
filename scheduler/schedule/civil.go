package schedule

import (
	"math/bits"
	"time"
)

// This file searches in local seconds and knows nothing of zones. It goes from set bit to set bit:
// the rest of today, then days of this month, then months. The years between two leap days
// cost some nanoseconds each, and a field that matches nothing soon is never tried value by value.

// next returns the first local second at or after the given one that matches, or never.
func (f *fields) next(local int64) int64 {
	day := floorDiv(local, secondsPerDay)
	year, month, dayOfMonth := time.Unix(local, 0).UTC().Date()
	first := day - int64(dayOfMonth) + 1
	match := f.days(year, month, first)
	if match>>dayOfMonth&1 != 0 {
		if second, ok := f.clockFrom(local - day*secondsPerDay); ok {
			return day*secondsPerDay + second
		}
	}
	// Today is over; what is left are later days, each of which begins with f.first.
	match &^= 1<<(dayOfMonth+1) - 1
	for match == 0 {
		if month++; month > time.December {
			month, year = time.January, year+1
		}
		if year > 10_000 {
			return never
		}
		if f.month>>month&1 != 0 {
			first = firstOfMonth(year, month)
			match = f.days(year, month, first)
		}
	}
	return (first+int64(bits.TrailingZeros64(match))-1)*secondsPerDay + f.first
}

// prev returns the last local second at or before the given one that matches, or -never.
func (f *fields) prev(local int64) int64 {
	day := floorDiv(local, secondsPerDay)
	year, month, dayOfMonth := time.Unix(local, 0).UTC().Date()
	first := day - int64(dayOfMonth) + 1
	match := f.days(year, month, first)
	if match>>dayOfMonth&1 != 0 {
		if second, ok := f.clockUpTo(local - day*secondsPerDay); ok {
			return day*secondsPerDay + second
		}
	}
	// What is left are earlier days, each of which ends with f.last.
	match &= 1<<dayOfMonth - 1
	for match == 0 {
		if month--; month < time.January {
			month, year = time.December, year-1
		}
		if year < 0 {
			return -never
		}
		if f.month>>month&1 != 0 {
			first = firstOfMonth(year, month)
			match = f.days(year, month, first)
		}
	}
	return (first+int64(bits.Len64(match))-2)*secondsPerDay + f.last
}

// days returns the days of a month that match, day n at bit n. first is the 1st, in days since 1970.
// One shift by the weekday of the 1st lays the week over the month.
func (f *fields) days(year int, month time.Month, first int64) uint64 {
	if f.month>>month&1 == 0 {
		return 0
	}
	weekday := floorMod(first+int64(time.Thursday), 7) // of 1970-01-01
	if f.eitherDay {
		return (f.dayOfMonth | f.weekdays[weekday]) & daysOf(year, month)
	}
	return f.dayOfMonth & f.weekdays[weekday] & daysOf(year, month)
}

// clockFrom returns the first match of a day at or after a second of that day. Whenever a larger unit
// moves on, the smaller ones start from their first match, which f.first holds.
func (f *fields) clockFrom(second int64) (int64, bool) {
	h, m, s := int(second/3600), int(second/60%60), int(second%60)
	if f.hour>>h&1 != 0 {
		if f.minute>>m&1 != 0 {
			if seconds := f.second >> s << s; seconds != 0 {
				return clock(h, m, bits.TrailingZeros64(seconds)), true
			}
		}
		if minutes := f.minute >> (m + 1) << (m + 1); minutes != 0 {
			return clock(h, bits.TrailingZeros64(minutes), 0) + f.first%60, true
		}
	}
	if hours := f.hour >> (h + 1) << (h + 1); hours != 0 {
		return clock(bits.TrailingZeros64(hours), 0, 0) + f.first%3600, true
	}
	return 0, false
}

// clockUpTo returns the last match of a day at or before a second of that day. It is clockFrom in a
// mirror: smaller units restart from their last match, which f.last holds.
func (f *fields) clockUpTo(second int64) (int64, bool) {
	h, m, s := int(second/3600), int(second/60%60), int(second%60)
	if f.hour>>h&1 != 0 {
		if f.minute>>m&1 != 0 {
			if seconds := f.second & (1<<(s+1) - 1); seconds != 0 {
				return clock(h, m, bits.Len64(seconds)-1), true
			}
		}
		if minutes := f.minute & (1<<m - 1); minutes != 0 {
			return clock(h, bits.Len64(minutes)-1, 0) + f.last%60, true
		}
	}
	if hours := f.hour & (1<<h - 1); hours != 0 {
		return clock(bits.Len64(hours)-1, 0, 0) + f.last%3600, true
	}
	return 0, false
}

// clock is a time of day in seconds after midnight.
func clock(hour, minute, second int) int64 {
	return int64(hour*3600 + minute*60 + second)
}

// firstOfMonth is in days since 1970. A midnight in UTC divides without a rest, before 1970 too.
func firstOfMonth(year int, month time.Month) int64 {
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}
