package fence

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxKeyBytes bounds a key.
	MaxKeyBytes = 512

	// MaxValueBytes bounds a value that [Redis] keeps: 1 MiB. A script copies it, and Redis does
	// nothing else meanwhile.
	MaxValueBytes = 1 << 20

	// MaxToken is the highest fencing token, 2^53 - 1: from 2^53 on Lua and JSON lose digits.
	MaxToken = 1<<53 - 1
)

// check refuses what no store is asked about.
func check(key string, token int64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return CheckToken(token)
}

// CheckKey says what is wrong with a key, by an error that matches [ErrInvalid]. A key is UTF-8 text of
// 1 to [MaxKeyBytes] bytes, without braces and without NUL. The rule is the same for every store, so
// that a key can move from one to another.
func CheckKey(key string) error {
	switch {
	case key == "":
		return invalid("key: empty")
	case len(key) > MaxKeyBytes:
		return invalid("key: %.32q… has %d bytes, at most %d are allowed", key, len(key), MaxKeyBytes)
	case strings.ContainsAny(key, "{}"):
		return invalid("key: %.32q has a brace, which would change its hash tag in Redis", key)
	case strings.ContainsRune(key, 0):
		return invalid("key: %.32q has a NUL byte, which PostgreSQL cannot store", key)
	case !utf8.ValidString(key):
		return invalid("key: %.32q is not valid UTF-8", key)
	}
	return nil
}

// CheckToken says what is wrong with a fencing token, by an error that matches [ErrInvalid]. A token is
// between 1 and [MaxToken].
func CheckToken(token int64) error {
	if token < 1 || token > MaxToken {
		return invalid("token: %d is not between 1 and 2^53 - 1", token)
	}
	return nil
}
