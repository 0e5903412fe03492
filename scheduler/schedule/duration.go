package schedule

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// The faults of a duration. They are what [ParseDuration] returns.
var (
	ErrNoDuration = errors.New("no duration")
	ErrSign       = errors.New("a sign is not allowed")
	ErrNoUnit     = errors.New("a unit is missing")
	ErrTooLong    = errors.New("longer than 292 years")
)

// ParseDuration reads a duration as Rota writes it, in schedules, configs and on the command line:
// the syntax of [time.ParseDuration] without a sign, and besides "d" for 24 hours of elapsed time,
// as in "14d" or "1d12h".
//
// The error is one of [ErrNoDuration], [ErrSign], [ErrNoUnit] and [ErrTooLong], unwrapped.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, ErrNoDuration
	}
	if strings.ContainsAny(text, "+-") {
		return 0, ErrSign
	}
	// Number by number: time.ParseDuration knows no d, and anything may stand before and after one.
	// Each sum is checked: a wrapped one would be a tick in the past.
	var sum int64
	for rest := text; rest != ""; {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, ".0123456789"))]
		unit := rest[len(number):]
		if end := strings.IndexAny(unit, ".0123456789"); end >= 0 {
			unit = unit[:end]
		}
		rest = rest[len(number)+len(unit):]
		if _, err := strconv.ParseFloat(number, 64); err != nil {
			return 0, ErrNoDuration
		}
		factor := int64(1)
		switch unit {
		case "":
			return 0, ErrNoUnit
		case "d":
			unit, factor = "h", 24
		case "h", "m", "s", "ms", "us", "µs", "μs", "ns":
		default:
			return 0, ErrNoDuration
		}
		part, err := time.ParseDuration(number + unit)
		if err != nil || int64(part) > (math.MaxInt64-sum)/factor { // a number and a unit: what is left is its size
			return 0, ErrTooLong
		}
		sum += int64(part) * factor
	}
	return time.Duration(sum), nil
}
