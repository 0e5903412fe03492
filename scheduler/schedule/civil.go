package schedule

import (
	"math/bits"
	"time"
)

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

// clockFrom returns the first match of a day at or after a second of that day.
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

// clockUpTo returns the last match of a day at or before a second of that day.
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

func clock(hour, minute, second int) int64 {
	return int64(hour*3600 + minute*60 + second)
}

func firstOfMonth(year int, month time.Month) int64 {
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay
}
