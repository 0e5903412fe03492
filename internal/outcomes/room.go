package outcomes

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// worthDropping is how many bytes of output are more than the line that stands in their place.
const worthDropping = 256

// makeRoom sees to it that another n bytes in one more file stay within the bounds. The caller holds
// the lock.
func (s *Store) makeRoom(n int64) error {
	if n > s.opt.MaxBytes {
		return fmt.Errorf("outcomes: an outcome takes more than the %d bytes there are for all", s.opt.MaxBytes)
	}
	for len(s.entries) >= s.opt.MaxCount {
		if err := s.dropOldest(fmt.Sprintf("%d outcomes are kept, and there is no room for more", len(s.entries))); err != nil {
			return err
		}
	}
	// How a run ended is what was promised; what it printed is most of the bytes.
	for _, en := range slices.Clone(s.entries) { // some may go
		if s.bytes+n <= s.opt.MaxBytes {
			return nil
		}
		if en.output > worthDropping {
			if err := s.dropOutput(en); err != nil {
				return err
			}
		}
	}
	for s.bytes+n > s.opt.MaxBytes {
		if err := s.dropOldest(fmt.Sprintf("all that is kept takes %d bytes, and there is no room for more", s.bytes)); err != nil {
			return err
		}
	}
	return nil
}

// ifFromMemory is what it means that an outcome is not on disk any more.
const ifFromMemory = "if this daemon does not deliver it from memory, the ledger has the run as lost"

func (s *Store) dropOldest(reason string) error {
	en := s.entries[0]
	if err := s.remove(en.name); err != nil {
		// It may be a folder by now. If it cannot be given another name either, the fault is not its own.
		aside, stays := s.renameAside(en.name)
		if stays != nil {
			return err
		}
		s.forget(en)
		en.log.Warn("kept outcome unreadable", "file", s.path(aside), "err", err, "effect", "it is set aside; "+ifFromMemory)
		return nil
	}
	s.forget(en)
	en.log.Warn("kept outcome dropped", "reason", reason, "effect", ifFromMemory)
	return nil
}

// dropOutput writes a file anew without the run's output, which is most of it. A line says so in its
// place, in the form of those that say what was left out of a long output. A file that somebody has
// removed or changed since is forgotten: the others are not to suffer for it.
func (s *Store) dropOutput(en *entry) error {
	data, err := s.read(en.name)
	var o *outcome
	if err == nil {
		o, err = decode(data)
	}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		s.forget(en)
		en.log.Warn("kept outcome gone", "reason", "somebody removed its file", "effect", ifFromMemory)
		return nil
	case ofDisk(err):
		return nil // it may be there the next time, and goes with the oldest if there is no other way
	default:
		s.forget(en)
		s.setAside(en.name, err, ifFromMemory)
		return nil
	}
	o.ending.Output = fmt.Appendf(nil, "[... %d bytes left out: too much had to be kept while redis was away ...]\n", len(o.ending.Output))
	if data, err = encode(o); err != nil {
		return err
	}
	if err := s.replace(en.name, data); err != nil {
		return err
	}
	s.bytes += int64(len(data)) - en.size
	en.size, en.output = int64(len(data)), 0
	en.log.Warn("output of a kept outcome dropped", "reason", fmt.Sprintf("there is room for %d bytes", s.opt.MaxBytes))
	return nil
}
