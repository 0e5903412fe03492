package config

import (
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
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

func checkNamespace(s string) problem {
	if s == "" || len(s) > 32 || strings.Trim(s, alphanumeric+"._-") != "" {
		return problem{text: show(s) + " is not 1 to 32 characters of A-Z a-z 0-9 . _ -"}
	}
	return problem{}
}

// checkVariable is the rule of the names of environment variables: POSIX.1-2024, XBD 8.1, with
// lower case, which it leaves to applications.
func checkVariable(s string) problem {
	switch {
	case s == "" || strings.Trim(s, alphanumeric+"_") != "" || s[0] >= '0' && s[0] <= '9':
		return problem{text: show(s) + " is not the name of an environment variable"}
	case strings.HasPrefix(s, "ROTA_"):
		return problem{text: "variables that begin with ROTA_ are set by Rota alone"}
	}
	return problem{}
}

func checkNoNUL(s string) problem {
	if strings.ContainsRune(s, 0) {
		return problem{text: "holds a NUL character"}
	}
	return problem{}
}

func checkNotEmpty(s string) problem {
	if strings.TrimSpace(s) == "" {
		return problem{text: "is empty"}
	}
	return problem{}
}

func checkAbsolute(s string) problem {
	if !filepath.IsAbs(s) {
		return problem{text: show(s) + " is not an absolute path"}
	}
	return checkNoNUL(s)
}

// unlessEmpty is for texts that may be left empty, and are nothing then.
func unlessEmpty(c check) check {
	return func(s string) problem {
		if s == "" {
			return problem{}
		}
		return c(s)
	}
}

func checkListen(s string) problem {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return checkAbsolute(path)
	}
	wrong := problem{show(s) + " is not an address to listen on", `write it like "127.0.0.1:8440" or "unix:/run/rota/http.sock"`}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return wrong
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return wrong
	}
	return problem{}
}

func checkUmask(s string) problem {
	if n, err := strconv.ParseUint(s, 8, 16); err != nil || n > 0o777 {
		return problem{show(s) + " is not a mask in octal", `write it like "0027"`}
	}
	return problem{}
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
