package cli

import "testing"

func TestForTerminal_KeepsTextAlone(t *testing.T) {
	for in, want := range map[string]string{
		"two\n\tlines, größer → ok\n": "two\n\tlines, größer → ok\n",
		"\x1b[2Jgone\x07\r\x00":       "\uFFFD[2Jgone\uFFFD\uFFFD\uFFFD",
		"\u009b31m":                   "\uFFFD31m", // CSI in one character (ECMA-48)
		"a\u202eb":                    "a\uFFFDb",  // turns the direction of writing
		"cut \xe2\x82":                "cut \uFFFD\uFFFD",
	} {
		if got := string(forTerminal([]byte(in))); got != want {
			t.Errorf("forTerminal(%q) = %q, want %q", in, got, want)
		}
	}
}
