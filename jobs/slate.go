//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A program starts on a clean slate: with an identity, an environment, a mask, and a priority that are
// its job's, whatever became of the daemon's own.

// surround finds out what the program runs as, and its environment.
func (c Command) surround(ctx context.Context, s *spec, run Run) error {
	env := c.Base
	if c.User != "" || c.Group != "" {
		account, err := LookupAccount(ctx, c.User, c.Group)
		if err != nil {
			return err
		}
		if err := account.MayBecome(); err != nil {
			return fmt.Errorf("%s: %w", c.wish(), err)
		}
		s.as = account.identity()
		if c.User != "" {
			env = merge(env, account.env())
		}
	}
	if c.EnvFile != "" {
		file, err := ReadEnvFile(c.EnvFile)
		if err != nil {
			return fmt.Errorf("env_file %s", fileFault(err)) // not wrapped: its errno is not exec's
		}
		env = merge(env, file)
	}
	s.env = merge(merge(env, c.Env), Environ(run))
	return nil
}

// wish is whom the job names.
func (c Command) wish() string {
	switch {
	case c.User == "":
		return fmt.Sprintf("group %q", c.Group)
	case c.Group == "":
		return fmt.Sprintf("user %q", c.User)
	}
	return fmt.Sprintf("user %q, group %q", c.User, c.Group)
}

// fileFault is what is wrong with a file, for a person.
func fileFault(err error) string {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Sprintf("%q: %v", pathErr.Path, pathErr.Err)
	}
	return err.Error()
}

// own gives the output to whom the program runs as: it may open /dev/stdout and its like, which is to
// open the pipe anew, by its owner and mode. It is best effort, since few do that.
func (s *spec) own(output *os.File) {
	if s.as == nil || output == nil {
		return
	}
	if conn, err := output.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Fchown(int(fd), int(s.as.uid), int(s.as.gid)) })
	}
}

// fork starts the program as a child of this process. What a child can only inherit is given to a thread
// first, which is not used for anything else then.
func (s *spec) fork(attr *os.ProcAttr) (main *os.Process, err error) {
	if s.as == nil && s.umask == nil && s.nice == nil {
		return os.StartProcess(s.path, s.args, attr)
	}
	onThread(func() {
		if s.nice != nil {
			if err = setNice(*s.nice); err != nil {
				return
			}
		}
		if s.umask != nil {
			// The mask belongs to all threads until one takes leave of the others (unshare(2)).
			if err = unix.Unshare(unix.CLONE_FS); err != nil {
				err = fmt.Errorf("umask: a mask of its own: %s", err) //nolint:errorlint // its errno is not exec's
				return
			}
			unix.Umask(*s.umask)
		}
		if s.as != nil {
			dropAmbient()
		}
		main, err = os.StartProcess(s.path, s.args, attr)
	})
	return main, err
}
