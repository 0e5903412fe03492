package ledger

import (
	"errors"
	"strings"
	"testing"
)

func TestBy_Check(t *testing.T) {
	for _, tc := range []struct {
		name string
		by   By
		part string // "": it can be kept
		want string // a part of the problem
	}{
		{"nothing is said", By{}, "", ""},
		{"a name and a reason", By{"ada@web-1", "database upgrade, 50 % done"}, "", ""},
		{"another alphabet", By{"ада", "обновление"}, "", ""},
		{"as long as may be", By{"ada", strings.Repeat("x", 200)}, "", ""},
		{"a byte longer", By{"ada", strings.Repeat("x", 201)}, "why", "201 bytes are above the limit of 200"},
		{"bytes count, not letters", By{"ada", strings.Repeat("é", 101)}, "why", "202 bytes"},
		{"a long name", By{strings.Repeat("x", 201), ""}, "who", "201 bytes"},
		{"an escape sequence", By{"ada", "\x1b[2J"}, "why", "U+001B"},
		{"an escape sequence in the name", By{"\x1b[2J", "x"}, "who", "U+001B"},
		{"a line end", By{"ada", "one\ntwo"}, "why", "U+000A"},
		{"a control character of eight bits", By{"ada", "\u009b2J"}, "why", "U+009B"},
		{"a turned direction of writing", By{"ada", "\u202egpj.exe"}, "why", "U+202E"},
		{"no UTF-8", By{"ada", "\xff"}, "why", "not UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.by.Check()
			if tc.part == "" {
				if err != nil {
					t.Errorf("%q.Check() = %v, want no error", tc.by, err)
				}
				return
			}
			e, ok := errors.AsType[*ByError](err)
			if !ok || e.Part != tc.part || !strings.Contains(e.Problem, tc.want) {
				t.Errorf("%q.Check() = %v, want a problem of %s: %s", tc.by, err, tc.part, tc.want)
			}
		})
	}
}

func TestBy_String(t *testing.T) {
	for by, want := range map[By]string{
		{"ada", ""}:        "ada",
		{"ada", "upgrade"}: "ada: upgrade",
	} {
		if got := by.String(); got != want {
			t.Errorf("%#v.String() = %q, want %q", by, got, want)
		}
	}
}
