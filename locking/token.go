package locking

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// redacted is all that a Token shows of itself.
const redacted = "[ownership token]"

// tokenDigits is the length of a token.
const tokenDigits = 32

// Token is the ownership token of one grant: whoever knows it can renew and release the
// lease. So it is a secret of its holder, and never printed: every way in which fmt, slog
// and encoding/json show a value shows a placeholder instead. It is not the fencing token,
// which is a number and meant to be seen.
type Token string

// NewToken returns a token of 128 random bits from crypto/rand, as 32 hexadecimal digits,
// which is what the prelude accepts. A token is made for one acquisition and never used
// again, except to repeat a question whose answer did not arrive.
func NewToken() Token {
	var b [tokenDigits / 2]byte
	_, _ = rand.Read(b[:]) // never fails, it ends the program: see crypto/rand
	return Token(hex.EncodeToString(b[:]))
}

// Reveal returns the token itself, to be sent to Redis.
func (t Token) Reveal() string { return string(t) }

// String returns a placeholder.
func (t Token) String() string { return redacted }

// GoString returns a placeholder.
func (t Token) GoString() string { return redacted }

// Format writes a placeholder whatever the verb: %x and %q would not ask String.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue returns a placeholder.
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder; encoding/json uses it too.
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }
