package schedule

import (
	"math"
	"strings"
	"time"
)

// maxEvery keeps the second tick of an @every before the year 2200. Longer ones are slips
// of the pen, and leave no room to add to them.
const maxEvery = 230 * 365 * 24 * time.Hour

// every reads "@every D" and returns the seconds between two ticks.
//
// The blank is taken strictly: "@every5m" and "@every  5m" are read by some crons and
// refused by others, and a table should mean the same wherever it is copied to.
func (p *parser) every(body string) int64 {
	const example = "write @every 90s, @every 15m or @every 1d12h"
	text, ok := strings.CutPrefix(body, "@every ")
	if !ok || text == "" || text != strings.TrimSpace(text) {
		p.fault("", "@every is followed by one blank and a duration; %s", example)
		return 0
	}
	d, reason := parseDuration(text)
	switch {
	case reason != "":
		p.fault("", "%q: %s; %s", text, reason, example)
	case d < time.Second:
		p.fault("", "%s is below the smallest interval, 1s", text)
	case d%time.Second != 0:
		p.fault("", "%s is no whole number of seconds", text)
	case d > maxEvery:
		p.fault("", "%s is absurdly long: its next tick lies beyond the year 2200", text)
	default:
		if day := 24 * time.Hour; day%d != 0 && d%day != 0 {
			p.warnf("%s does not divide a day: the times of day differ from one day to the next", text)
		}
		return int64(d / time.Second)
	}
	return 0
}

// parseDuration reads a Go duration in which d stands for 24 hours, also where clocks change. It
// returns what is wrong, or "".
//
// The text is taken apart by number and unit, and time.ParseDuration reads the parts, so that a unit is
// spelt as everywhere in Go. Each sum is checked: a wrapped one would be a tick in the past.
func parseDuration(text string) (d time.Duration, reason string) {
	if strings.ContainsAny(text, "+-") {
		return 0, "a sign is not allowed"
	}
	for rest := text; rest != ""; {
		numberEnd := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if numberEnd < 0 {
			return 0, "a unit is missing, such as " + text + "s or " + text + "m"
		}
		unitEnd := strings.IndexAny(rest[numberEnd:], ".0123456789")
		if unitEnd < 0 {
			unitEnd = len(rest) - numberEnd
		}
		value, unit := rest[:numberEnd], rest[numberEnd:numberEnd+unitEnd]
		factor := int64(1)
		if unit == "d" {
			unit, factor = "h", 24
		}
		part, err := time.ParseDuration(value + unit)
		if err != nil {
			return 0, "no duration"
		}
		if int64(part) > (math.MaxInt64-int64(d))/factor {
			return 0, "longer than 292 years"
		}
		d += time.Duration(int64(part) * factor)
		rest = rest[numberEnd+unitEnd:]
	}
	return d, ""
}
