package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// sizeForm has the units of IEC 80000-13 alone: KB is 1000 bytes to some and 1024 to others. Nine
// digits are enough for any size and too few to overflow.
var sizeForm = regexp.MustCompile(`^([0-9]{1,9})(B|KiB|MiB|GiB)$`)

// size is a number of bytes between least and most, both included. With def "" it has no default.
func size(name, def string, dst *int, least, most int) key {
	k := key{name: name, kind: aSize, set: func(at place, v any) bool {
		if n, ok := v.(int64); ok && n >= 0 {
			at.fault(problem{fmt.Sprintf("%d has no unit", n), fmt.Sprintf(`write "%dB", or use KiB, MiB or GiB`, n)})
			return false
		}
		if n, ok := v.(int64); ok {
			at.faultf("%d is negative", n)
			return false
		}
		s, ok := v.(string)
		if !ok {
			return at.wrongType(aSize, v)
		}
		form := sizeForm.FindStringSubmatch(s)
		if form == nil {
			at.fault(problem{show(s) + " is not a size", `write it like "16KiB"; the units are B, KiB, MiB and GiB`})
			return false
		}
		n, _ := strconv.Atoi(form[1])
		n <<= map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30}[form[2]]
		if n < least || n > most {
			at.faultf("%s is not between %s and %s", s, showSize(least), showSize(most))
			return false
		}
		*dst = n
		return true
	}}
	if def != "" {
		k.def = def
	}
	return k
}

// showSize is n as the config writes it.
func showSize(n int) string {
	for _, u := range []struct {
		name  string
		shift int
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n != 0 && n%(1<<u.shift) == 0 {
			return strconv.Itoa(n>>u.shift) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}
