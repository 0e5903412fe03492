package schedule

import (
	"math/bits"
	"time"
)

// MinGap returns the smallest distance between two ticks that follow each other. A start that is
// delayed by less never passes the next tick. It is 0 for a nil Schedule.
//
// For one spec it is exact, clock changes included: "0 2 * * *" in New York has a day of 23 hours.
// The clock changes looked at are those from 2020 to 2050, which hold every arrangement of weekdays
// and leap days. For several specs it is a lower bound, since which dates they share is not worked
// out: as if each ticked every day, and, where zones or @every mix, at every offset of its zone.
//
// It may take a few milliseconds; nothing is remembered.
func (s *Schedule) MinGap() time.Duration {
	if s == nil {
		return 0
	}
	var gap int64
	switch only := &s.rules[0]; {
	case len(s.rules) > 1:
		gap = min(dayGap(s.rules), s.changeGap())
	case only.every > 0:
		gap = only.every
	default:
		gap = min(only.fields.gap(), s.changeGap())
	}
	return time.Duration(gap) * time.Second
}

// changeGap is the smallest gap around a clock change: from the last tick before it to the first
// one after, and from that one, which may be a skipped time, to the next.
func (s *Schedule) changeGap() int64 {
	gap := never
	for i := range s.rules {
		if s.rules[i].zone == nil {
			continue
		}
		for _, p := range s.rules[i].zone.known[1:] {
			change := instant(p.start, true)
			before, ok1 := s.Prev(change)
			after, ok2 := s.Next(change.Add(-time.Second))
			then, ok3 := s.Next(after)
			if ok1 && ok2 && ok3 {
				gap = min(gap, after.Unix()-before.Unix(), then.Unix()-after.Unix())
			}
		}
	}
	return gap
}

// gap is the smallest distance between two matches in local seconds: within a day, or from the
// last of a day to the first of the next day that matches.
func (f *fields) gap() int64 {
	gap := f.daysApart()*secondsPerDay - f.last + f.first
	for second := f.first; second < f.last && gap > 1; {
		next, _ := f.clockFrom(second + 1)
		gap = min(gap, next-second)
		second = next
	}
	return gap
}

// daysApart is the smallest number of days between two dates that match, over the 400 years after
// which weekdays and dates repeat.
func (f *fields) daysApart() int64 {
	const firstYear = 2000
	apart, previous := never/secondsPerDay, -never/secondsPerDay
	for year := firstYear; year <= firstYear+2*400; year++ {
		for month := time.January; month <= time.December; month++ {
			first := firstOfMonth(year, month)
			match := f.days(year, month, first)
			for ; match != 0 && apart > 1; match &= match - 1 {
				day := first + int64(bits.TrailingZeros64(match))
				apart = min(apart, day-previous)
				previous = day
			}
		}
	}
	return apart
}

// dayGap puts the times of day of all rules on one circle, and returns the smallest distance on it. Two
// ticks of the schedule lie on the circle at their own distance or, days apart, at that less whole
// days; so none are nearer to each other than their places are, unless a clock change is between them.
func dayGap(rules []rule) int64 {
	oneZone := true
	for i := range rules {
		oneZone = oneZone && rules[i].every == 0 && rules[i].zone == rules[0].zone
	}
	circle := make([]bool, secondsPerDay)
	for i := range rules {
		offsets := map[int64]bool{0: true} // local time will do, if it is the same for all
		if !oneZone && rules[i].every == 0 {
			offsets = rules[i].zone.distinctOffsets()
		}
		for offset := range offsets {
			rules[i].mark(circle, offset)
		}
	}
	gap, first, previous := int64(secondsPerDay), -1, 0
	for second, marked := range circle {
		switch {
		case !marked:
			continue
		case first < 0:
			first = second
		default:
			gap = min(gap, int64(second-previous))
		}
		previous = second
	}
	return min(gap, int64(secondsPerDay+first-previous))
}

// mark marks the seconds of a day at which the rule may tick. An @every that does not divide the
// day comes, over the days, to all multiples of what it has in common with it.
func (r *rule) mark(circle []bool, offset int64) {
	if r.every > 0 {
		step := gcd(r.every, secondsPerDay)
		for second := int64(0); second < secondsPerDay; second += step {
			circle[second] = true
		}
		return
	}
	for second, ok := r.fields.clockFrom(0); ok && second < secondsPerDay; {
		circle[floorMod(second-offset, secondsPerDay)] = true
		if second++; second < secondsPerDay {
			second, ok = r.fields.clockFrom(second)
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
