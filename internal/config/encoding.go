package config

import (
	"bytes"
	"strings"
)

// checkEncoding reports what the decoder would accept or name badly: TOML is UTF-8 and its
// lines end in LF or CRLF (TOML 1.0, "Spec" and "Comment"). It returns text without a byte
// order mark.
func checkEncoding(text []byte) (string, int, problem) {
	const mark = "\xef\xbb\xbf"
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return "", 1, problem{"is UTF-16", "save the file as UTF-8"}
	}
	s := strings.TrimPrefix(string(text), mark)
	if strings.HasPrefix(s, mark) {
		return "", 1, problem{"begins with two byte order marks", "save the file as UTF-8 without one"}
	}
	// A NUL is named apart from other control characters, which the decoder refuses: it is what most
	// of a UTF-16 file without a mark consists of.
	line := 1
	for i, r := range s {
		switch {
		case r == '\n':
			line++
		case r == 0:
			return "", line, problem{"holds a NUL byte", "save the file as UTF-8"}
		case r == '\r' && !strings.HasPrefix(s[i+1:], "\n"):
			return "", line, problem{"holds a carriage return that does not end a line", "end lines with LF or CRLF"}
		case r == '\uFFFD' && !strings.HasPrefix(s[i:], "\uFFFD"):
			return "", line, problem{"holds a byte that is not UTF-8", "save the file as UTF-8; it may be Latin-1"}
		}
	}
	return s, 0, problem{}
}
