package config

import (
	"fmt"
	"log/slog"
)

// redacted stands for a secret wherever one is printed.
const redacted = "[redacted]"

// Secret is a value that no formatting shows: fmt with any verb, slog, and every encoder that
// asks for text print "[redacted]", or "" if there is none. The zero value is no secret.
//
// The text hangs behind a pointer because fmt does not call the methods of a value in another
// type's unexported field: it would print a string, of a pointer it prints the address.
type Secret struct{ text *string }

// NewSecret hides text. An empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal is the secret itself, for the client that has to send it and for nobody else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero tells that there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// String is "[redacted]", or "" if there is no secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format prints String whatever the verb, also those that would not ask for it, as %x.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String; JSON, TOML and XML encoders use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
