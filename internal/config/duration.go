package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A day is 24 hours of elapsed time. Schedules know calendar days, durations do not.
const day = 24 * time.Hour

// longest bounds every duration, so that sums of several of them cannot overflow and no
// key of Redis is asked to live longer than the server's clock can say.
const longest = 3650 * day

// ParseDuration reads a duration as the config writes it: the syntax of
// [time.ParseDuration] without a sign, and besides "d" for 24 hours, as in "14d" or "1d12h".
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
	wrong := problem{show(s) + " is not a duration", `write it like "90s", "5m", "1h30m" or "14d"`}
	// Number by number: time.ParseDuration knows no d, and anything may stand before and after one.
	var sum int64 // nanoseconds
	for rest := s; rest != "" || s == ""; {
		n := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if n <= 0 {
			return 0, wrong
		}
		number := rest[:n]
		unit := rest[n:]
		if end := strings.IndexAny(unit, ".0123456789"); end >= 0 {
			unit = unit[:end]
		}
		rest = rest[n+len(unit):]

		factor := int64(1)
		if unit == "d" {
			unit, factor = "h", int64(day/time.Hour)
		}
		d, err := time.ParseDuration(number + unit)
		// Its errors have no types. A number that is one, before a unit that is one, is too large.
		if err != nil && !strings.Contains(err.Error(), "unknown unit") && digits(number) {
			return 0, tooLong(s)
		}
		if err != nil {
			return 0, wrong
		}
		if int64(d) > math.MaxInt64/factor || sum > math.MaxInt64-int64(d)*factor {
			return 0, tooLong(s)
		}
		sum += int64(d) * factor
	}
	return time.Duration(sum), problem{}
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
