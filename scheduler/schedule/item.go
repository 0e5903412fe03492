package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A kind is what the syntax knows of one of the six fields. The table of them never changes.
type kind struct {
	name     string
	min, max int
	names    string // three letters each, without separator, from min on
	unit     string // of @every, for steps that the field cannot hold
}

var kinds = [...]kind{
	{name: "second", max: 59, unit: "s"},
	{name: "minute", max: 59, unit: "m"},
	{name: "hour", max: 23, unit: "h"},
	{name: "day of month", min: 1, max: 31, unit: "d"},
	{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"},
	{name: weekdayField, max: 6, names: "sunmontuewedthufrisat"},
}

const weekdayField = "day of week"

// normalize checks one field and rewrites it in plain numbers, the week from 0 to 6. It returns what
// is wrong with the first bad item, or "".
//
// The grammar is that of crontab(5) as robfig/cron reads it, less what that accepts by accident. What
// is refused is named as it was written, with its bound, and where possible with what to
// write instead: the reader of the message is looking at the line, not at this package.
func (k *kind) normalize(field string) (normal, reason string) {
	var items []string
	for item := range strings.SplitSeq(field, ",") {
		normal, reason := k.item(item)
		if reason != "" {
			return "", reason
		}
		items = append(items, normal)
	}
	return strings.Join(items, ","), ""
}

func (k *kind) item(item string) (normal, reason string) {
	if item == "" {
		return "", "empty item; a list is written 1,2,3"
	}
	// First, as L-3 and H(0-29)/10 would be taken apart below and named by their pieces.
	if hint := foreignToken(item); hint != "" {
		return "", fmt.Sprintf("%q: %s", item, hint)
	}
	base, stepText, hasStep := strings.Cut(item, "/")
	switch {
	case base == "":
		return "", fmt.Sprintf("%q has nothing before the slash; write */5", item)
	case base != "*" && base != "?" && isWildcard(base):
		return "", fmt.Sprintf("%q is unknown; only a step such as /5 may follow %s", item, base[:1])
	}
	step := 1
	if hasStep {
		if step, reason = k.step(stepText); reason != "" {
			return "", reason
		}
	}
	if base == "*" || base == "?" {
		return fmt.Sprintf("*/%d", step), ""
	}
	lowText, highText, isRange := strings.Cut(base, "-")
	low, reason := k.value(lowText)
	if reason != "" {
		return "", reason
	}
	high := low
	switch {
	case isRange:
		if high, reason = k.value(highText); reason != "" {
			return "", reason
		}
		if low > high {
			return "", fmt.Sprintf("%s begins after it ends; write %s", base, k.unwrap(low, high))
		}
	// N/STEP ends with the field. For 7 that is either itself or, as 0, the whole week: ask.
	case hasStep && low > k.max:
		return "", fmt.Sprintf("%s counts from the last value on; write 7, or 0/%d", item, step)
	case hasStep:
		high = k.max
	}
	// The parser's week ends with Saturday.
	if high > k.max {
		return weekList(low, high, step), ""
	}
	return fmt.Sprintf("%d-%d/%d", low, high, step), ""
}

// weekList spells out a range that ends with 7, the other name of Sunday.
func weekList(low, high, step int) string {
	var days []string
	for day := low; day <= high; day += step {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

// step reads what follows a slash. A step as large as the field leaves its first value, which is of
// use in "*/31,1-7" (see foreignToken) and in the week's */7; a larger one is always a misunderstanding.
func (k *kind) step(text string) (step int, reason string) {
	step, ok := number(text)
	size := k.max - k.min + 1
	switch {
	case !ok:
		return 0, fmt.Sprintf("step %q is no number; write */5", text)
	case step == 0:
		return 0, "step 0 would never advance; the smallest is 1"
	case step > size && k.unit != "":
		return 0, fmt.Sprintf("step %s is larger than the field, which has %d values; write @every %s%s",
			text, size, text, k.unit)
	case step > size:
		return 0, fmt.Sprintf("step %s is larger than the field, which has %d values", text, size)
	}
	return step, ""
}

// value reads a number or a name. Names are taken in ranges and lists too, as all crons of today do.
func (k *kind) value(text string) (value int, reason string) {
	highest := k.max
	if k.name == weekdayField {
		highest = 7
	}
	lower := strings.ToLower(text)
	if value, ok := number(text); ok {
		switch {
		// The last field of a Quartz or AWS line is a year.
		case value > 1900 && value < 2300:
			return 0, fmt.Sprintf("%s is above %d; there is no year field, a sixth field is seconds and comes first",
				text, highest)
		case value > highest:
			return 0, fmt.Sprintf("%s is above %d", text, highest)
		case value < k.min:
			return 0, fmt.Sprintf("%s is below %d", text, k.min)
		}
		return value, ""
	}
	for i := 0; len(lower) >= 3 && i < len(k.names); i += 3 {
		switch name := k.names[i : i+3]; {
		case lower == name:
			return k.min + i/3, ""
		case strings.HasPrefix(lower, name):
			return 0, fmt.Sprintf("%q is unknown; names have three letters, write %s", text, strings.ToUpper(name))
		}
	}
	allowed := fmt.Sprintf("numbers from %d to %d are allowed", k.min, highest)
	if k.names != "" {
		allowed += fmt.Sprintf(", or names from %s to %s",
			strings.ToUpper(k.names[:3]), strings.ToUpper(k.names[len(k.names)-3:]))
	}
	if text == "" {
		return 0, "a number is missing; " + allowed
	}
	return 0, fmt.Sprintf("%q is unknown; %s", text, allowed)
}

// unwrap writes a range that goes past the end of its field as one or two that do not.
func (k *kind) unwrap(low, high int) string {
	if k.name == weekdayField && high == 0 {
		return span(low, 7)
	}
	return span(low, k.max) + "," + span(k.min, high)
}

func span(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// number reads digits; leading zeros do not make them octal. Above 9999 it returns 9999, which is
// too large for every field.
func number(text string) (int, bool) {
	n := 0
	for _, char := range []byte(text) {
		if char < '0' || char > '9' {
			return 0, false
		}
		n = min(n*10+int(char-'0'), 9999)
	}
	return n, text != ""
}

// foreignToken explains the tokens of other dialects: Quartz' L, W and #, H of Jenkins, ~ and R
// of OpenBSD's and other crons. It returns "" for what is none, such as JUL, WED and THU.
//
// The way to say "the first Friday" in this grammar is a day of month that starts with * and is
// restricted all the same: */31 is the 1st, and the star makes both day fields necessary.
func foreignToken(item string) string {
	upper := strings.ToUpper(item)
	isDay := func(text string) bool {
		_, ok := number(text)
		return ok || text == "" || len(text) == 3 && slices.Contains(weekdayNames(), text)
	}
	last, _, _ := strings.Cut(upper, "-")
	if before, ok := strings.CutSuffix(last, "L"); ok && isDay(before) {
		return "L (the last) is Quartz' syntax; write 28-31 and let the command test whether tomorrow is the 1st"
	}
	if before, ok := strings.CutSuffix(upper, "W"); ok && (before == "L" || isDay(before)) {
		return "W (the nearest weekday) is Quartz' syntax; write 1-5 as the day of week and let the command test the date"
	}
	switch {
	case strings.Contains(upper, "#"):
		return "# (the nth weekday) is Quartz' syntax; for the first Friday write */31,1-7 as the day of month and 5 as the day of week"
	case upper == "H", strings.HasPrefix(upper, "H/"), strings.HasPrefix(upper, "H("):
		return "H (a hash of the name) is Jenkins' syntax; write a number, and spread the starts with splay"
	case upper == "R", strings.Contains(upper, "~"):
		return "a random value would differ from host to host; write a number, and spread the starts with splay"
	}
	return ""
}

func weekdayNames() []string {
	return []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
}
