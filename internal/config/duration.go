package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rota/scheduler/schedule"
)

// A day is 24 hours of elapsed time. Schedules know calendar days, durations do not.
const day = 24 * time.Hour

// longest bounds every duration, so that sums of several of them cannot overflow and no
// key of Redis is asked to live longer than the server's clock can say.
const longest = 3650 * day

// ParseDuration is [schedule.ParseDuration] with the words of the config.
//
// The error says what is wrong and, where one form was likely meant, which; it has no prefix.
// A number without a unit is refused: neither seconds nor nanoseconds is a safe guess.
func ParseDuration(s string) (time.Duration, error) {
	d, pr := parseDuration(s)
	if pr.text == "" {
		return d, nil
	}
	if pr.hint != "" {
		return 0, fmt.Errorf("%s; %s", pr.text, pr.hint)
	}
	return 0, errors.New(pr.text)
}

func parseDuration(s string) (time.Duration, problem) {
	if number := strings.TrimPrefix(s, "+"); number != "" && strings.Trim(number, "0123456789.") == "" && digits(number) {
		return 0, bare(number)
	}
	if strings.HasPrefix(s, "-") {
		return 0, problem{text: show(s) + " is negative"}
	}
	d, err := schedule.ParseDuration(s)
	switch {
	case errors.Is(err, schedule.ErrTooLong):
		return 0, tooLong(s)
	case err != nil:
		return 0, problem{show(s) + " is not a duration", `write it like "90s", "5m", "1h30m" or "14d"`}
	}
	return d, problem{}
}

// digits tells whether number is one at all, so that what was wrong with it is its size.
func digits(number string) bool {
	_, err := strconv.ParseFloat(number, 64)
	return err == nil
}

// bare is what to say of a number without a unit: what it would be in seconds, if it would be.
func bare(number string) problem {
	if strings.HasPrefix(number, "-") {
		return problem{text: number + " is negative"}
	}
	inSeconds := number + "s"
	if _, pr := parseDuration(inSeconds); pr.text != "" {
		return pr
	}
	return problem{number + " has no unit", fmt.Sprintf("write %q", inSeconds)}
}

// tooLong names the bound that holds for every key, though there is room for a little more.
func tooLong(s string) problem {
	return problem{text: show(s) + " is longer than " + short(longest)}
}

// short is d without the zero units that its String method appends, in days where it is long.
func short(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
