package config

import (
	"fmt"
	"strings"
	"time"
)

// wrongType reports v, which is not of the kind wanted, without showing it.
func (p place) wrongType(want kind, v any) bool {
	var pr problem
	switch want {
	case aDuration:
		pr = problem{"must be a duration in quotes, not " + article(v), `write it like "30s"`}
	case aSize:
		pr = problem{"must be a size in quotes, not " + article(v), `write it like "16KiB"`}
	case aText:
		pr = problem{text: "must be a string, not " + article(v)}
		switch v.(type) {
		case int64, float64, bool, time.Time:
			pr.hint = "quote it"
		}
	case aList:
		pr = problem{"must be an array of strings, not " + article(v), `write it like ["a", "b"]`}
	case aFlag:
		pr = problem{"must be true or false, not " + article(v), ""}
		if s, ok := v.(string); ok && (s == "true" || s == "false") {
			pr.hint = "leave the quotes out"
		}
	case aCount, someCodes:
		pr = problem{text: "must be an " + string(want) + ", not " + article(v)}
	default:
		pr = problem{text: "must be a " + string(want) + ", not " + article(v)}
	}
	p.fault(pr)
	return false
}

// article names the TOML type of a value.
func article(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "true or false"
	case time.Time:
		return "a date"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "an array of tables"
	}
	return "nothing"
}

// checkName is the rule of job names, and of what is compared with them or becomes part of a
// key in Redis beside them: hosts, labels, locks.
func checkName(s string) problem {
	switch {
	case s == "":
		return problem{text: "a name may not be empty"}
	case len(s) > 64:
		return problem{text: fmt.Sprintf("%s has %d characters, a name at most 64", show(s), len(s))}
	case strings.Trim(s[:1], alphanumeric) != "":
		return problem{text: show(s) + " does not begin with a letter or a digit"}
	case strings.Trim(s, alphanumeric+"._-") != "":
		return problem{text: show(s) + " holds more than A-Z a-z 0-9 . _ -"}
	}
	return problem{}
}

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
