//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

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

// setNice gives the calling thread a priority. Linux has one for each thread, which children inherit
// (setpriority(2), C library/kernel differences).
func setNice(nice int) error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
		errno, _ := errors.AsType[syscall.Errno](err)
		return &niceError{nice, errno}
	}
	return nil
}

// A niceError says that a priority was refused.
type niceError struct {
	nice  int
	errno syscall.Errno
}

func (e *niceError) Error() string {
	if errors.Is(e.errno, unix.EACCES) || errors.Is(e.errno, unix.EPERM) {
		return fmt.Sprintf("nice %d: a higher priority than the daemon's takes root, or CAP_SYS_NICE, or RLIMIT_NICE", e.nice)
	}
	return fmt.Sprintf("nice %d: %v", e.nice, e.errno)
}

// MayNice says what keeps this process from starting programs with a priority, nil if nothing does.
func MayNice(nice int) error {
	// The system call has 20 minus the value, so that it is never negative (getpriority(2)).
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return &niceError{nice, unix.EINVAL}
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NICE, &limit) // else it is 0, which allows nothing
	if nice >= 20-raw || uint64(20-nice) <= limit.Cur || len(lacking(capSysNice)) == 0 {
		return nil
	}
	return &niceError{nice, unix.EACCES}
}

// ambient are the capabilities that the calling thread's programs get as they are (capabilities(7),
// ambient set). A program that runs as somebody else must not have them: with CAP_SETUID it could
// become anybody. The kernel takes them away itself only when the user 0 becomes another one.
func ambient() (all []uintptr) {
	for c := uintptr(0); c <= 63; c++ {
		if set, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, c, 0, 0); err != nil {
			break // beyond the last one
		} else if set == 1 {
			all = append(all, c)
		}
	}
	return all
}

func dropAmbient() { _ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) }

func raiseAmbient(all []uintptr) {
	for _, c := range all {
		_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
	}
}
