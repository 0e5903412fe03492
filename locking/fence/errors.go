package fence

import (
	"errors"
	"fmt"
)

// The errors of this package, to be told apart with [errors.Is].
var (
	// ErrStale says that the store has seen a higher token: another holder has been granted the lock
	// since. [StaleError] says which. Nothing was changed, and no repetition will: the holder stops.
	ErrStale = errors.New("fence: stale token")
	// ErrConflict says that the store holds something at this place that was not written by this
	// package: another type, or a token that is none. It is never overwritten; somebody must look.
	ErrConflict = errors.New("fence: store holds something that is no guarded value")
	// ErrInvalid says that a key, a token, a value or an option cannot be used. The store was not asked.
	ErrInvalid = errors.New("fence: invalid")
)

// StaleError says which token was refused, and why. It matches [ErrStale].
type StaleError struct {
	Key    string // "" where a statement of the caller's own was refused
	Token  int64  // the one that was refused
	Stored int64  // the highest that the store has seen
}

func (e *StaleError) Error() string {
	of := ""
	if e.Key != "" {
		of = fmt.Sprintf(" for %q", e.Key)
	}
	return fmt.Sprintf("%v %d%s: the store has seen %d", ErrStale, e.Token, of, e.Stored)
}

// Is tells that a StaleError is an [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w "+format, append([]any{ErrInvalid}, args...)...)
}
