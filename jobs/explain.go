//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// headBytes is how much of a program's beginning the kernel looks at (BINPRM_BUF_SIZE).
const headBytes = 256

// explain turns what execve(2) answered into words for the person who wrote the job. One errno
// has several causes: ENOENT is a missing program, directory, interpreter or loader. It looks with the
// rights of the thread that it is called on, see [identity.looking].
func explain(err error, s *spec) error {
	errno, ok := errors.AsType[unix.Errno](err)
	if !ok {
		return err // not the program's fault
	}
	path := s.path
	if where := nulAt(s.args, s.env); where != "" {
		return fmt.Errorf("%s contains a NUL byte", where)
	}
	if dirErr := checkDir(s.dir, s.as); dirErr != nil {
		return dirErr
	}
	switch errno { //nolint:exhaustive // the others speak for themselves
	case unix.ENOENT:
		return explainMissing(path)
	case unix.EACCES:
		return explainDenied(path, s.as)
	case unix.ENOEXEC:
		return explainFormat(path)
	case unix.E2BIG:
		return explainTooLong(s.args, s.env)
	case unix.ETXTBSY:
		return errors.New("text file busy: the program is being written, tried twice")
	case unix.EAGAIN:
		return errors.New("the limit on processes or threads is reached (RLIMIT_NPROC, pids.max)")
	case unix.EPERM:
		if s.as != nil {
			return fmt.Errorf("%q: not permitted to run as user %d, group %d", path, s.as.uid, s.as.gid)
		}
	}
	return fmt.Errorf("%q: %w", path, errno)
}

// who is the one that may not do what others may.
func (id *identity) who() string {
	if id == nil {
		return "this user"
	}
	return fmt.Sprintf("user %d", id.uid)
}

// checkDir says what keeps a process from starting in dir.
func checkDir(dir string, as *identity) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("dir %q does not exist", dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("dir %q may not be reached by %s", dir, as.who())
	case err != nil:
		return fmt.Errorf("dir %q: %w", dir, errors.Unwrap(err))
	case !info.IsDir():
		return fmt.Errorf("dir %q is not a directory", dir)
	case unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("dir %q may not be entered by %s", dir, as.who())
	}
	return nil
}

func explainMissing(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%q not found", path)
	}
	head := readHead(path)
	interpreter := interpreterOf(head)
	switch {
	case strings.HasSuffix(interpreter, "\r"):
		return fmt.Errorf("bad interpreter line in %q: %q does not exist, the line ends in CR LF; "+
			"save the file with LF line ends", path, interpreter)
	case interpreter != "":
		return fmt.Errorf("bad interpreter line in %q: %q does not exist", path, interpreter)
	case isELF(head):
		return fmt.Errorf("%q is there, its loader is not: built for another C library or machine", path)
	}
	return fmt.Errorf("%q not found", path)
}

func explainDenied(path string, as *identity) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%q may not be reached by %s", path, as.who())
	}
	if info.IsDir() {
		return fmt.Errorf("%q is a directory", path)
	}
	if unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil {
		if info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return fmt.Errorf("%q may not be executed by %s, or is on a noexec mount (mode %#o)",
				path, as.who(), info.Mode().Perm())
		}
		return fmt.Errorf("%q is not executable (mode %#o)", path, info.Mode().Perm())
	}
	if interpreter := interpreterOf(readHead(path)); interpreter != "" {
		return fmt.Errorf("bad interpreter line in %q: %q may not be executed", path, interpreter)
	}
	return fmt.Errorf("%q: permission denied", path)
}

func explainFormat(path string) error {
	head := readHead(path)
	switch {
	case len(head) == 0:
		return fmt.Errorf("exec format error: %q is empty", path)
	case isELF(head):
		return fmt.Errorf("exec format error: %q is built for another machine", path)
	case !bytes.HasPrefix(head, []byte("#!")):
		return fmt.Errorf("exec format error: %q has no #! line; begin it with #!/bin/sh, "+
			"or run it through shell", path)
	}
	return fmt.Errorf("exec format error: bad interpreter line in %q", path)
}

// explainTooLong gives the two limits of execve(2): on one string and on all together.
func explainTooLong(args, env []string) error {
	var total, longest int
	for _, list := range [][]string{args, env} {
		for _, s := range list {
			total += len(s) + 1
			longest = max(longest, len(s)+1)
		}
	}
	return fmt.Errorf("argument list too long: %d bytes of arguments and environment, the longest %d; "+
		"the kernel takes 131072 for one, and for all a quarter of the stack limit", total, longest)
}

// readHead returns the beginning of a regular file, nothing of any other: a FIFO would block.
func readHead(path string) []byte {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, _ := f.Read(head)
	return head[:n]
}

// interpreterOf returns the program that a #! line names. A carriage return is part of the name
// for the kernel, so it is here.
func interpreterOf(head []byte) string {
	rest, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	line = bytes.Trim(line, " \t")
	if i := bytes.IndexAny(line, " \t"); i >= 0 {
		line = line[:i]
	}
	return string(line)
}

func isELF(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }
