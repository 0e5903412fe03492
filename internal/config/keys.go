package config

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"
)

// key is one setting: its name within its table, its default, and how a value is checked and
// stored. The lists of keys in settings.go and jobkeys.go are the only places that know which
// there are, and config.example.toml is held against them by a test.
//
// The constructors below take the place to store to, as those of package flag do: so no key is
// ever looked up by a name that may be misspelt, and its type is the compiler's to check.
type key struct {
	name string
	kind kind
	def  any // as the decoder gives it; nil if there is none

	// set stores v where the key's constructor was told to. It reports at the place given, and
	// answers false, if v will not do; what is stored then does not matter.
	set func(at place, v any) bool

	keys []key // of a table with keys of its own
}

// A check looks at a text and says what is wrong with it, if anything is. It shows the text only
// if no key it serves can hold a secret.
type check func(string) problem

// text is a string. The first check that finds something has the word.
func text(name, def string, dst *string, checks ...check) key {
	return key{name: name, kind: aText, def: def, set: func(at place, v any) bool {
		s, ok := v.(string)
		if !ok {
			return at.wrongType(aText, v)
		}
		for _, wrong := range checks {
			if pr := wrong(s); pr.text != "" {
				at.fault(pr)
				return false
			}
		}
		*dst = s
		return true
	}}
}

// word is a text out of a few. The type of the constants keeps a list and its field together.
func word[T ~string](name string, def T, dst *T, valid ...T) key {
	words := make([]string, len(valid))
	for i, w := range valid {
		words[i] = string(w)
	}
	var s string
	k := text(name, string(def), &s, func(s string) problem { return notOne(s, words) })
	plain := k.set
	k.set = func(at place, v any) bool {
		fine := plain(at, v)
		if fine {
			*dst = T(s)
		}
		return fine
	}
	return k
}

// texts is an array of strings, by default an empty one. Every element is checked, and reported
// under the array's key: the decoder has no position of elements.
func texts(name string, dst *[]string, checks ...check) key {
	return key{name: name, kind: aList, def: []any{}, set: func(at place, v any) bool {
		list, ok := v.([]any)
		if !ok {
			return at.wrongType(aList, v)
		}
		good := make([]string, 0, len(list))
		for i, v := range list {
			s, ok := v.(string)
			if !ok {
				pr := notText(v)
				at.fault(problem{fmt.Sprintf("element %d %s", i+1, pr.text), pr.hint})
				continue
			}
			wrong := slices.IndexFunc(checks, func(c check) bool { return c(s).text != "" })
			if wrong >= 0 {
				at.fault(checks[wrong](s))
				continue
			}
			good = append(good, s)
		}
		*dst = good
		return len(good) == len(list)
	}}
}

// duration is between least and most, both included; with least 0 it may be zero. With def "" it
// has no default. A number is refused with what it would be in seconds, as systemd and Kubernetes
// take it; the decoder by itself takes nanoseconds.
func duration(name, def string, dst *time.Duration, least, most time.Duration) key {
	k := key{name: name, kind: aDuration, set: func(at place, v any) bool {
		var s string
		switch v := v.(type) {
		case string:
			s = v
		case int64:
			at.fault(bare(strconv.FormatInt(v, 10)))
			return false
		case float64:
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return at.wrongType(aDuration, v)
			}
			at.fault(bare(strconv.FormatFloat(v, 'f', -1, 64)))
			return false
		default:
			return at.wrongType(aDuration, v)
		}
		d, pr := parseDuration(s)
		switch {
		case pr.text != "":
		case d == 0 && least > 0:
			pr.text = show(s) + " is not above zero"
		case d < least:
			pr.text = fmt.Sprintf("%s is shorter than %s", s, short(least))
		case d > most:
			pr.text = fmt.Sprintf("%s is longer than %s", s, short(most))
		}
		if pr.text != "" {
			at.fault(pr)
			return false
		}
		*dst = d
		return true
	}}
	if def != "" {
		k.def = def
	}
	return k
}

// count is an integer between least and most, both included.
func count(name string, def, least, most int64, dst *int) key {
	return key{name: name, kind: aCount, def: def, set: func(at place, v any) bool {
		n, ok := v.(int64)
		if !ok {
			return at.wrongType(aCount, v)
		}
		if n < least || n > most {
			at.faultf("%d is not between %d and %d", n, least, most)
			return false
		}
		*dst = int(n)
		return true
	}}
}

// optional is a key whose absence means something else than any of its values.
func optional[T any](dst **T, of func(*T) key) key {
	var v T
	k := of(&v)
	plain := k.set
	k.set = func(at place, value any) bool {
		fine := plain(at, value)
		if fine {
			*dst = new(v)
		}
		return fine
	}
	return k
}

// codes is an array of integers between least and most. An empty one is refused: nobody means
// that nothing ever succeeds.
func codes(name string, def []any, least, most int64, dst *[]int) key {
	return key{name: name, kind: someCodes, def: def, set: func(at place, v any) bool {
		list, ok := v.([]any)
		if !ok {
			return at.wrongType(someCodes, v)
		}
		if len(list) == 0 {
			at.faultf("is empty: no run could ever succeed")
			return false
		}
		good := make([]int, 0, len(list))
		for i, v := range list {
			switch n, ok := v.(int64); {
			case !ok:
				at.faultf("element %d must be an integer, not %s", i+1, typeOf(v))
			case n < least || n > most:
				at.faultf("%d is not between %d and %d", n, least, most)
			default:
				good = append(good, int(n))
			}
		}
		*dst = good
		return len(good) == len(list)
	}}
}

// boolean is true or false, without quotes.
func boolean(name string, def bool, dst *bool) key {
	return key{name: name, kind: aFlag, def: def, set: func(at place, v any) bool {
		b, ok := v.(bool)
		if !ok {
			return at.wrongType(aFlag, v)
		}
		*dst = b
		return true
	}}
}

// none takes the default away: an absent key is then a zero value, which means that the user has
// said nothing.
func none(k key) key {
	k.def = nil
	return k
}

// words is an array of texts out of a few: those of the default and more.
func words(name string, dst *[]string, def []string, more ...string) key {
	valid := append(slices.Clone(def), more...)
	k := texts(name, dst, func(s string) problem { return notOne(s, valid) })
	list := make([]any, len(def))
	for i, w := range def {
		list[i] = w
	}
	k.def = list
	return k
}

func notOne(s string, valid []string) problem {
	if slices.Contains(valid, s) {
		return problem{}
	}
	pr := problem{text: show(s) + " is not one of " + oneOf(valid)}
	if near := nearest(s, valid); near != "" {
		pr.hint = fmt.Sprintf("did you mean %q?", near)
	}
	return pr
}

// level is one of the levels of log/slog, in lower case.
func level(name, def string, dst *slog.Level) key {
	var s string
	k := word(name, def, &s, "debug", "info", "warn", "error")
	plain := k.set
	k.set = func(at place, v any) bool {
		return plain(at, v) && dst.UnmarshalText([]byte(s)) == nil
	}
	return k
}
