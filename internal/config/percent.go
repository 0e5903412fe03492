package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// percentForm has whole numbers alone, few enough digits not to overflow.
var percentForm = regexp.MustCompile(`^([0-9]{1,9})%$`)

// percent is a share of one CPU between least and most per cent, both included, without a default.
// A bare number is refused, also one in quotes: 2 is two CPUs to some, and two per cent to others.
func percent(name string, dst *int, least, most int) key {
	return key{name: name, kind: aPercent, set: func(at place, v any) bool {
		s, ok := v.(string)
		if !ok {
			return at.wrongType(aPercent, v)
		}
		form := percentForm.FindStringSubmatch(s)
		if form == nil {
			at.fault(problem{show(s) + " is not a percentage", `write it like "50%", which is half of one CPU`})
			return false
		}
		n, _ := strconv.Atoi(form[1])
		if n < least || n > most {
			at.fault(problem{text: fmt.Sprintf("%s is not between %d%% and %d%%", s, least, most)})
			return false
		}
		*dst = n
		return true
	}}
}
