package outcomes

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"rota/scheduler"
)

// maxBad is how many files that were set aside stay for somebody to look at.
const maxBad = 20

// scan takes in what is in the folder. Files that are not called like outcomes are left alone.
func (s *Store) scan() {
	found, err := os.ReadDir(s.opt.Dir) // by name, so the oldest first
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("kept outcomes not read", "err", s.fault(err), "effect", "what an earlier daemon kept is not delivered")
		}
		return
	}
	var bad []string
	foreign := 0
	for _, f := range found {
		name := f.Name()
		s.next = max(s.next, number(name)+1)
		switch {
		case strings.HasSuffix(name, ending+unfinished):
			name = s.adopt(name)
		case strings.HasSuffix(name, unreadable):
			bad = append(bad, name)
			continue
		case !strings.HasSuffix(name, ending):
			continue
		}
		if name == "" {
			continue
		}
		o, err := s.load(name)
		switch {
		case errors.Is(err, errNewer), ofDisk(err):
			s.log.Warn("kept outcome left alone", "file", s.path(name), "err", err) // as long as that is so
		case err != nil:
			bad = append(bad, s.setAside(name, err, "the ledger has its run as lost"))
		case o.namespace != s.opt.Namespace:
			foreign++
		}
	}
	if foreign > 0 {
		s.log.Warn("kept outcomes of another namespace left alone", "count", foreign, "namespace", s.opt.Namespace)
	}
	s.dropBad(bad)
}

// ofDisk tells of an error that says nothing about a file's content.
func ofDisk(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// load reads one outcome and takes it into the store. One that is not for this daemon to deliver is not
// for it to drop either: it stays out, and takes no room.
func (s *Store) load(name string) (*outcome, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	o, err := decode(data)
	if err != nil || o.namespace != s.opt.Namespace {
		return o, err // into another namespace's ledger it would bring a run that nobody there knows
	}
	en := &entry{name: name, size: int64(len(data)), output: len(o.ending.Output), log: s.about(&o.grant, &o.ending)}
	s.add(en)
	s.left = append(s.left, scheduler.KeptOutcome{Grant: o.grant, Ending: o.ending, Drop: func() error { return s.drop(en) }})
	return o, nil
}

// adopt takes in a file that was written and not renamed any more, if it is whole. It returns the
// name under which it is to be read: the one that it was meant to have, or, if it could not be
// renamed, still its own; "" if there is nothing to read.
func (s *Store) adopt(name string) string {
	meant := strings.TrimSuffix(name, unfinished)
	if _, err := os.Lstat(s.path(meant)); err == nil {
		_ = s.remove(name) // it was to replace one that is still there
		return ""
	}
	data, err := s.read(name)
	if err == nil {
		_, err = decode(data)
	}
	if err != nil {
		return name
	}
	if err := os.Rename(s.path(name), s.path(meant)); err != nil {
		return name
	}
	return meant
}

// setAside gives a file that cannot be read another name, and says so, and what that means for its run.
// It returns that name; the old one if it could not be renamed.
func (s *Store) setAside(name string, why error, effect string) string {
	aside, err := s.renameAside(name)
	if err != nil {
		s.log.Warn("kept outcome unreadable", "file", s.path(name), "err", errors.Join(why, err))
		return name
	}
	s.log.Warn("kept outcome unreadable", "file", s.path(aside), "err", why, "effect", "it is set aside; "+effect)
	return aside
}

func (s *Store) renameAside(name string) (aside string, err error) {
	aside = strings.TrimSuffix(name, unfinished) + unreadable
	if err := os.Rename(s.path(name), s.path(aside)); err != nil {
		return "", s.fault(err)
	}
	return aside, nil
}

// dropBad removes the oldest of what was set aside, above a number.
func (s *Store) dropBad(names []string) {
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-maxBad)] {
		if err := s.remove(name); err == nil {
			s.log.Warn("unreadable outcome removed", "file", name)
		}
	}
}

// number is the one that a file's name begins with, 0 if there is none.
func number(name string) int64 {
	digits, _, _ := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 999_999_999_999 {
		return 0
	}
	return n
}
