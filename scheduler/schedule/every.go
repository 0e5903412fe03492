package schedule

import (
	"errors"
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
	d, err := ParseDuration(text)
	switch {
	case errors.Is(err, ErrNoUnit):
		p.fault("", "%q: %s, such as %ss or %[3]sm; %s", text, err, text, example)
	case err != nil:
		p.fault("", "%q: %s; %s", text, err, example)
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
