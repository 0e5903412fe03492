package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// show quotes a value for a message. It is cut, so that a page pasted into the wrong place does
// not become the message, and escaped, so that it cannot move a terminal's cursor.
func show(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s)
	}
	return strconv.Quote(s)
}

// printable is s with an escape for everything that is no visible character. Names of files and
// of keys are not quoted in messages, and may hold line ends and what moves a terminal's cursor.
func printable(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		part := rest[:n]
		if invalid := r == utf8.RuneError && n == 1; invalid || !strconv.IsPrint(r) {
			part = strings.Trim(strconv.Quote(part), `"`)
		}
		b.WriteString(part)
		rest = rest[n:]
	}
	return b.String()
}
