package outcomes

import (
	"errors"
	"fmt"
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
	for _, en := range s.entries {
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

func (s *Store) dropOldest(reason string) error {
	en := s.entries[0]
	if err := s.remove(en.name); err != nil {
		return err
	}
	s.forget(en)
	en.log.Warn("kept outcome dropped", "reason", reason, "effect", "if this daemon does not deliver it from memory, the ledger has the run as lost")
	return nil
}

// dropOutput writes a file anew without the run's output, which is most of it. A line says so in its
// place, in the form of those that say what was left out of a long output.
func (s *Store) dropOutput(en *entry) error {
	data, err := s.read(en.name)
	if err != nil {
		return err
	}
	o, err := decode(data)
	if err != nil {
		return errors.New("outcomes: a file was changed by somebody else")
	}
	o.ending.Output = fmt.Appendf(nil, "[... %d bytes left out: too much had to be kept while redis was away ...]\n", len(o.ending.Output))
	if data, err = encode(o); err != nil {
		return err
	}
	if err := s.write(en.name, data); err != nil {
		return err
	}
	s.bytes += int64(len(data)) - en.size
	en.size, en.output = int64(len(data)), 0
	en.log.Warn("output of a kept outcome dropped", "reason", fmt.Sprintf("there is room for %d bytes", s.opt.MaxBytes))
	return nil
}
