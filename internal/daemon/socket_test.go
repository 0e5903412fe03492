package daemon

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"rota/internal/config"
)

func TestSocketPaths(t *testing.T) {
	state := t.TempDir()
	fallback := filepath.Join(state, "run.sock")
	for _, tc := range []struct{ runtime, first string }{
		{"", "^" + regexp.QuoteMeta(fallback) + "$"},
		{"/run/rota", "^/run/rota/run-[0-9a-f]{8}\\.sock$"},
		{"/run/rota:/run/more", "^/run/rota/run-[0-9a-f]{8}\\.sock$"},
	} {
		t.Setenv("RUNTIME_DIRECTORY", tc.runtime)
		got := socketPaths(state)
		if !regexp.MustCompile(tc.first).MatchString(got[0]) || got[len(got)-1] != fallback {
			t.Errorf("socketPaths with RUNTIME_DIRECTORY %q = %q, want one that matches %s, and %s", tc.runtime, got, tc.first, fallback)
		}
		if other := socketPaths(t.TempDir()); other[0] == got[0] {
			t.Errorf("socketPaths of another daemon with RUNTIME_DIRECTORY %q = %q, want another path", tc.runtime, other)
		}
	}
	t.Setenv("RUNTIME_DIRECTORY", "")
	t.Chdir(filepath.Dir(state))
	if got := socketPaths(filepath.Base(state)); got[0] != fallback {
		t.Errorf("socketPaths of a relative folder = %q, want %s: runs start elsewhere", got, fallback)
	}
}

// Where the better place cannot be used the other one is, and where none can the daemon runs all the same.
func TestListen_MakesDo(t *testing.T) {
	state := t.TempDir()
	log := &lines{}
	t.Setenv("RUNTIME_DIRECTORY", filepath.Join(state, "absent"))
	c := &config.Config{StateDir: state}
	s := listen(c, testLogger(log))
	if s.Path() != filepath.Join(state, "run.sock") || log.has("socket not served") {
		t.Errorf("listen without the folder of RUNTIME_DIRECTORY: path %q, want that in the state folder, and nothing in the log", s.Path())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "run.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := listen(c, testLogger(log)); s != nil || !log.has("socket not served") || !log.has("run.sock is there and no socket") {
		t.Errorf("listen where no socket can be made: path %q, want none, and the reason in the log", s.Path())
	}
}
