//go:build linux

package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// busyPause is how long a program that is just being written gets before the one retry. An
// installer's rename and a compiler's last write are over by then.
const busyPause = 100 * time.Millisecond

// spec is what there is to execute. The error says which of the names in the table cannot be.
func (c Command) spec(ctx context.Context, run Run) (*spec, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return nil, errors.New("start: no program is named")
	}
	name := c.Args[0]
	// Without /proc nobody could tell whether the run is over.
	if _, err := os.Stat("/proc/self"); err != nil {
		return nil, fmt.Errorf("start %q: /proc is not mounted", name)
	}
	dir, err := filepath.Abs(cmp.Or(c.Dir, "/"))
	if err != nil {
		return nil, fmt.Errorf("start %q: dir %q: %w", name, c.Dir, err)
	}
	s := &spec{run: run.ID, dir: dir, args: c.Args, umask: c.Umask, nice: c.Nice}
	if err = c.surround(ctx, s, run); err == nil {
		s.as.looking(func() { s.path, err = findProgram(name, dir, lookup(s.env, "PATH")) })
	}
	if ctx.Err() != nil {
		return nil, errNotStarted // whatever else it met on the way
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", name, err)
	}
	return s, nil
}

// findProgram returns the path that execvp(3) would take after a change to dir: the first
// candidate in PATH that is a file which may be executed.
func findProgram(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		return inDir(dir, name), nil
	}
	path = cmp.Or(path, DefaultPath)
	var notExecutable string
	for _, entry := range filepath.SplitList(path) {
		candidate := inDir(inDir(dir, entry), name)
		info, err := os.Stat(candidate)
		if err != nil || info.IsDir() {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, candidate, unix.X_OK, unix.AT_EACCESS) == nil {
			return candidate, nil
		}
		notExecutable = cmp.Or(notExecutable, candidate)
	}
	if notExecutable != "" {
		// Started nevertheless: the kernel refuses it, and the refusal is explained.
		return notExecutable, nil
	}
	return "", fmt.Errorf("not found in PATH %q", path)
}

// inDir is path as seen from dir. It is not cleaned: a/../b may be another file than b.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// nulAt names the argument or variable that holds a NUL byte, which execve(2) cannot pass. The
// value stays out: it may be a secret.
func nulAt(args, env []string) string {
	hasNUL := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	if i := slices.IndexFunc(args, hasNUL); i >= 0 {
		return fmt.Sprintf("argument %d", i)
	}
	if i := slices.IndexFunc(env, hasNUL); i >= 0 {
		name, _, _ := strings.Cut(env[i], "=")
		return fmt.Sprintf("environment variable %q", name)
	}
	return ""
}
