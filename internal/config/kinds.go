package config

import (
	"time"

	"github.com/BurntSushi/toml"
)

// kind is what a value is, in the words of messages and of config.example.toml.
type kind string

const (
	aText     kind = "string"
	aList     kind = "array of strings"
	aSpec     kind = "string or array of strings"
	aDuration kind = "duration"
	aSize     kind = "size"
	aPercent  kind = "percentage"
	aCount    kind = "integer"
	someCodes kind = "array of integers"
	aFlag     kind = "true or false"
	aTable    kind = "table"
)

// wrongType reports v, which is not of the kind wanted, with the form that is. It does not show
// v: a password without quotes is an integer too.
func (p place) wrongType(want kind, v any) bool {
	pr := problem{text: "must be " + want.article() + ", not " + typeOf(v)}
	switch want {
	case aText:
		pr = notText(v)
	case aList:
		pr.hint = `write it like ["a", "b"]`
	case aDuration:
		pr.hint = `write it like "30s"`
	case aSize:
		pr.hint = `write it like "16KiB"`
	case aPercent:
		pr.hint = `write it like "50%", which is half of one CPU`
	case aFlag:
		if s, ok := v.(string); ok && (s == "true" || s == "false") {
			pr.hint = "leave the quotes out"
		}
	case aTable:
		pr.hint = "write [" + toml.Key(p.path).String() + "], and its keys below"
	case aSpec, aCount, someCodes:
	}
	p.fault(pr)
	return false
}

// article is the kind with its article. Durations, sizes and percentages have no type in TOML, so
// it says that they are strings.
func (k kind) article() string {
	switch k {
	case aDuration, aSize, aPercent:
		return "a " + string(k) + " in quotes"
	case aList, aCount, someCodes:
		return "an " + string(k)
	case aFlag:
		return string(k)
	case aText, aSpec, aTable:
	}
	return "a " + string(k)
}

func notText(v any) problem {
	pr := problem{text: "must be a string, not " + typeOf(v)}
	switch v.(type) {
	case int64, float64, bool, time.Time:
		pr.hint = "quote it"
	}
	return pr
}

// typeOf names the TOML type of a value. These are all that the decoder gives.
func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
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
