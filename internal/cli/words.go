package cli

import (
	"fmt"
	"strconv"
	"time"

	"rota/scheduler/ledger"
)

// span is a length of time in one unit, for reading at a glance.
func span(d time.Duration) string {
	switch d = d.Abs(); {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// since is how long ago t was, or how far ahead it is.
func since(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + span(d)
	default:
		return span(d) + " ago"
	}
}

// clock is an instant in UTC with no more of it than is needed beside now: the time of today,
// the weekday of this week, else the date.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	format := "15:04:05Z"
	if t.Second() == 0 {
		format = "15:04Z"
	}
	switch apart := t.Sub(now).Abs(); {
	case t.YearDay() == now.YearDay() && t.Year() == now.Year():
	case apart < 6*24*time.Hour:
		format = "Mon " + format
	default:
		format = "2006-01-02 " + format
	}
	return t.Format(format)
}

// stamp is an instant in UTC, whole.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// localFormat is for an instant in a job's zone. It has the offset, because a fold has two of
// one local time.
const localFormat = "Mon 2006-01-02 15:04:05 -07:00"

// took is a measured length of time to three digits.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// size is a number of bytes to two digits at least, in the units of the config.
func size(bytes int64) string {
	n, unit := float64(bytes)/1024, "KiB"
	for _, next := range []string{"MiB", "GiB"} {
		if n >= 1024 {
			n, unit = n/1024, next
		}
	}
	if n < 10 {
		return strconv.FormatFloat(n, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(n, 'f', 0, 64) + unit
}

// The parts of an entry as cells of a table; "-" is none.

func lagOf(e *ledger.Entry) string {
	if e == nil || e.Won.IsZero() {
		return "-"
	}
	return took(e.Lag())
}

func tookOf(e *ledger.Entry) string {
	if e.Started.IsZero() || e.Ended.IsZero() {
		return "-"
	}
	return took(e.Ended.Sub(e.Started))
}

func cpuOf(e *ledger.Entry) string {
	if e.CPU == 0 {
		return "-"
	}
	return took(e.CPU.Round(time.Millisecond))
}

func memoryOf(e *ledger.Entry) string {
	if e.PeakMemoryBytes == 0 {
		return "-"
	}
	return size(e.PeakMemoryBytes)
}

func tokenOf(e *ledger.Entry) string {
	if e == nil || e.Token == 0 {
		return "-"
	}
	return strconv.FormatInt(e.Token, 10)
}

// reasonOf is why an entry is as it is: its kind unless that is the usual one, with who asked for
// it, the range it covers, and its reason.
func reasonOf(e *ledger.Entry, now time.Time) string {
	var text string
	add := func(s string) {
		if text != "" && s != "" {
			text += ": "
		}
		text += s
	}
	switch {
	case e.Who != "":
		add(string(e.Kind) + " by " + e.Who)
	case e.Kind != ledger.Scheduled:
		add(string(e.Kind))
	}
	if e.Count > 1 {
		add(fmt.Sprintf("%d ticks until %s", e.Count, clock(e.Until, now)))
	}
	add(e.Reason)
	return text
}

// endOf is when an entry got its outcome.
func endOf(e *ledger.Entry) time.Time {
	if !e.Ended.IsZero() {
		return e.Ended
	}
	return e.At()
}

// count is a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
