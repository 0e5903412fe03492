package cli

import (
	"strings"
	"testing"
)

func TestFrame_FitsTheScreen(t *testing.T) {
	text := "1\n2\n3\n4\n"
	for _, tc := range []struct {
		name   string
		height int
		want   string
	}{
		{"room for all", 10, "1 2 3 4"},
		{"just enough", 4, "1 2 3 4"},
		{"one too few", 3, "1 2 ... 2 more lines"},
		{"a height that is not known", 0, "1 2 3 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := frame(text, tc.height)
			if !strings.HasPrefix(got, cursorHome) || !strings.HasSuffix(got, clearLine+clearBelow) {
				t.Errorf("frame %q does not begin at home and clear what is below", got)
			}
			// Every line has to clear the rest of the one it is drawn over.
			lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(got, cursorHome), clearBelow), "\r\n")
			for i, line := range lines {
				bare, cleared := strings.CutSuffix(line, clearLine)
				if !cleared {
					t.Errorf("line %q leaves what was there", line)
				}
				lines[i] = bare
			}
			if shown := strings.Join(lines, " "); shown != tc.want {
				t.Errorf("frame(%q, %d) shows %q, want %q", text, tc.height, shown, tc.want)
			}
		})
	}
}
