package outcomes

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// How files are called, besides their number and run.
const (
	ending     = ".json" // an outcome
	unfinished = ".tmp"  // after that: not written to its end
	unreadable = ".bad"  // after that: set aside
)

// write puts a new file in place, so that it is there after a crash: the folder is synced too, which
// holds its name (fsync(2): a file's own sync does not).
func (s *Store) write(name string, data []byte) error {
	if err := os.MkdirAll(s.opt.Dir, 0o700); err != nil {
		return s.fault(err)
	}
	if err := s.replace(name, data); err != nil {
		return err
	}
	if err := syncDir(s.opt.Dir); err != nil {
		_ = os.Remove(s.path(name)) // it may be there or not: the caller goes on without it
		return s.fault(err)
	}
	return nil
}

// replace puts a file in place of one, or of none, so that a crash leaves the old state or the new one:
// what is written under another name and synced is renamed. Where either state will do, as for two files
// of one outcome, that is all there is to it.
func (s *Store) replace(name string, data []byte) error {
	temporary := s.path(name + unfinished)
	err := writeSynced(temporary, data)
	if err == nil {
		err = os.Rename(temporary, s.path(name))
	}
	if err != nil {
		_ = os.Remove(temporary)
		return s.fault(err)
	}
	return nil
}

func writeSynced(path string, data []byte) error {
	// A link under this name is somebody's trap.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// read reads a file of the folder, if it is one and not too large.
func (s *Store) read(name string) ([]byte, error) {
	// Opening a pipe would wait for its writer.
	f, err := os.OpenFile(s.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, s.fault(err)
	}
	defer func() { _ = f.Close() }()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.New("outcomes: no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+2))
	switch {
	case err != nil:
		return nil, s.fault(err)
	case len(data) > maxFile+1:
		return nil, fmt.Errorf("outcomes: larger than %d bytes", maxFile)
	}
	return data, nil
}

// remove deletes a file; one that is gone is fine.
func (s *Store) remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.fault(err)
	}
	return nil
}

func (s *Store) path(name string) string { return filepath.Join(s.opt.Dir, name) }

// fault makes one text of what went wrong in the folder, without the name of the file: the same
// fault with the next outcome is no news.
func (s *Store) fault(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("outcomes: %s in %s: %w", p.Op, s.opt.Dir, p.Err)
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return fmt.Errorf("outcomes: %s in %s: %w", l.Op, s.opt.Dir, l.Err)
	}
	return fmt.Errorf("outcomes: %s: %w", s.opt.Dir, err)
}
