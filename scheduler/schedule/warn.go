package schedule

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// warnZone speaks of names that mean less than they seem to.
func (p *parser) warnZone(name string) {
	var reason string
	switch {
	// Most readers take EST for the zone of New York. It never leaves winter.
	case name == "EST":
		reason = `is fixed at -5 hours all year; for summer time write "America/New_York"`
	case name == "MST":
		reason = `is fixed at -7 hours all year; for summer time write "America/Denver"`
	case name == "HST":
		reason = `is fixed at -10 hours all year; "Pacific/Honolulu" says the same`
	case strings.HasPrefix(name, "Etc/GMT+"), strings.HasPrefix(name, "Etc/GMT-"):
		reason = "has its sign turned round: Etc/GMT+5 is five hours behind UTC"
	default:
		return
	}
	p.warnings = append(p.warnings, fmt.Sprintf("timezone %q %s", name, reason))
}

// warnFields takes the six fields as they were written, and the sets that they mean. A warning is
// about what somebody coming from another cron would not expect. It never changes what a
// spec means, and it is silent about plain lines: one that comes always is read by nobody.
func (p *parser) warnFields(texts []string, f *fields) {
	for i := range kinds {
		p.warnStep(&kinds[i], texts[i])
	}
	minute, hour := texts[1], texts[2]
	if _, single := number(hour); single && minute == "*" {
		p.warnf("runs 60 times, in each minute of hour %s; for once a day write 0 as the minute", hour)
	}
	p.warnDays(texts[3], texts[5], f)
}

// warnStep speaks of steps that do not divide their field: the count starts anew with it. "*/45" is
// often meant as every 45 minutes, which is what @every says.
func (p *parser) warnStep(k *kind, text string) {
	stepText, ok := strings.CutPrefix(strings.ReplaceAll(text, "?", "*"), "*/")
	step, isNumber := number(stepText)
	size := k.max - k.min + 1
	switch {
	case !ok || !isNumber || k.name == weekdayField:
		return
	case step == size:
		p.warnf("%s %s matches %d only", k.name, text, k.min)
	case k.name == "day of month" && step > 1:
		p.warnf("%s %s starts anew on the 1st of each month", k.name, text)
	case size%step != 0:
		last := k.min + (size-1)/step*step
		p.warnf("%s %s starts anew at %d: the step from %d is %d, not %d; @every keeps its distance",
			k.name, text, k.min, last, k.max+1-last, step)
	}
}

// warnDays speaks of the two day fields together: whether one of them is enough hangs on the first
// character of either, and the third of the usual readings ("the first Monday") on none.
func (p *parser) warnDays(dayOfMonth, dayOfWeek string, f *fields) {
	const firstWeek = 1<<8 - 2
	oneWeekday := bits.OnesCount64(f.dayOfWeek) == 1
	stepped := func(text string) bool { return isWildcard(text) && len(text) > 1 }
	switch {
	case f.eitherDay && f.dayOfMonth == firstWeek && oneWeekday:
		p.warnf("both day fields are restricted, so either may match: this is not the first such weekday "+
			"of the month, it is days 1 to 7 and every such weekday; for the first one write */31,%s as the day of month",
			dayOfMonth)
	case f.eitherDay:
		p.warnf("both day fields are restricted, so either may match: day of month %s, or day of week %s",
			dayOfMonth, dayOfWeek)
	case stepped(dayOfMonth) && dayOfWeek != "*" && dayOfWeek != "?":
		p.warnf("day of month %s starts with *, so the day of week must match too", dayOfMonth)
	case stepped(dayOfWeek) && dayOfMonth != "*" && dayOfMonth != "?":
		p.warnf("day of week %s starts with *, so the day of month must match too: some other crons "+
			"take either", dayOfWeek)
	}
	p.warnLate(dayOfMonth, f)
}

// warnLate speaks of months that have none of the days: nothing is moved to their last day.
func (p *parser) warnLate(dayOfMonth string, f *fields) {
	const commonYear, leapYear = 2001, 2000
	var without []string
	for month := time.January; month <= time.December; month++ {
		if f.month>>month&1 != 0 && f.dayOfMonth&daysOf(commonYear, month) == 0 {
			name := month.String()
			if f.dayOfMonth&daysOf(leapYear, month) != 0 {
				name += " of a common year"
			}
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		p.warnf("no day of month %s in %s, and none is put in its place", dayOfMonth, strings.Join(without, ", "))
	}
}
