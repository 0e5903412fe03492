package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rota/internal/config"
)

// openTerminal returns both ends of a pseudo-terminal (pts(4)).
func openTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return screen, program
}

// auto is tint on a terminal and JSON elsewhere; a format that is named is taken wherever it goes.
func TestNewLogger_AutoLooksAtTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	for _, tc := range []struct {
		format       string
		terminal     string // what it begins with there
		elsewhereToo bool
	}{
		{"auto", "\x1b[2m", false},
		{"json", `{"time":"`, true},
		{"text", "time=", true},
		{"journal", "<6>level=INFO", true},
	} {
		screen, program := openTerminal(t)
		NewLogger(config.Log{Level: slog.LevelInfo, Format: tc.format}, program).Info("m")
		buf := make([]byte, 1000)
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(buf[:n]); !strings.HasPrefix(got, tc.terminal) {
			t.Errorf("%s on a terminal = %q, want it to begin with %q", tc.format, got, tc.terminal)
		}

		file, err := os.Create(filepath.Join(t.TempDir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		NewLogger(config.Log{Level: slog.LevelInfo, Format: tc.format}, file).Info("m")
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		want := `{"time":"`
		if tc.elsewhereToo {
			want = tc.terminal
		}
		if !strings.HasPrefix(string(text), want) {
			t.Errorf("%s into a file = %q, want it to begin with %q", tc.format, text, want)
		}
	}
}
