package drill

import (
	"errors"
	"os"
	"syscall"
)

// floor is where only one may be: a file under flock(2), which the kernel gives back when a process ends
// and not before. It knows nothing of the lock that is tried.
type floor struct{ file *os.File }

func openFloor(path string) (*floor, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &floor{f}, nil
}

// enter tells whether somebody else is inside. Then the floor stays theirs.
func (f *floor) enter() (taken bool, err error) {
	err = syscall.Flock(int(f.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

func (f *floor) leave() error { return syscall.Flock(int(f.file.Fd()), syscall.LOCK_UN) }
