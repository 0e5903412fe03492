package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// state is the daemon's own folder, locked for as long as it runs.
type state struct{ lock *os.File }

// openState makes the folder if it is absent (0700: what it will keep is what jobs did) and
// locks it. Two daemons in one folder would deliver each other's outcomes.
func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state_dir: %w (set state_dir to a folder that this user can write)", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state_dir: %w (set state_dir to a folder that this user can write)", err)
	}
	// flock(2): the kernel gives it up when the process ends, however it ends.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("state_dir: another daemon uses %s (each host needs a folder of its own)", dir)
		}
		return nil, fmt.Errorf("state_dir: lock %s: %w", dir, err)
	}
	return &state{lock: f}, nil
}

func (s *state) close() { _ = s.lock.Close() }
