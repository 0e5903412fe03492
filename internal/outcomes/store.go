package outcomes

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"rota/scheduler"
	"rota/scheduler/ledger"
)

// Options of a [Store].
type Options struct {
	Dir       string // the folder; made (0700) when it is needed. Required
	Namespace string // the fleet's: outcomes of others are left alone

	// The bounds are of what this daemon may drop. Files that it leaves alone do not count.
	MaxCount int   // of outcomes; 0: 10,000
	MaxBytes int64 // of their files together; 0: 64 MiB, which is room for three with the largest output there is

	Logger *slog.Logger // nil: nothing is logged
}

// Store keeps outcomes in a folder. Make it with [Open].
type Store struct {
	opt Options
	log *slog.Logger

	mu      sync.Mutex
	entries []*entry // oldest first
	bytes   int64
	next    int64 // number of the next file
	left    []scheduler.KeptOutcome
}

// entry is one file of the folder.
type entry struct {
	name   string
	size   int64
	output int // bytes of output in it
	log    *slog.Logger
}

// Open reads what is in the folder. It always returns a Store: whatever is wrong with the folder is
// in the log, and with [Store.Keep].
func Open(opt Options) *Store {
	if opt.MaxCount == 0 {
		opt.MaxCount = 10_000
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 64 << 20
	}
	s := &Store{opt: opt, log: opt.Logger, next: 1}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.scan()
	return s
}

// Keep writes an outcome to disk; when it returns, a crash of the machine does not lose it. drop
// removes it again; an error of drop means that it is still there. An error of Keep means that it is
// not. Errors of one kind have one text, whichever outcome they are about.
func (s *Store) Keep(g *ledger.Grant, e *ledger.Ending) (drop func() error, err error) {
	data, err := encode(&outcome{namespace: s.opt.Namespace, kept: time.Now(), grant: *g, ending: *e})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoom(int64(len(data))); err != nil {
		return nil, err
	}
	// The number is used up even if the write fails: what that left must not be mistaken for this one.
	name := fmt.Sprintf("%012d-%s%s", s.next, inName(g.Claim.Run), ending)
	s.next++
	if err := s.write(name, data); err != nil {
		return nil, err
	}
	en := &entry{name: name, size: int64(len(data)), output: len(e.Output), log: s.about(g, e)}
	s.add(en)
	return func() error { return s.drop(en) }, nil
}

// Left returns the outcomes of this namespace that the folder held when it was opened, oldest first.
// The second call returns none.
func (s *Store) Left() []scheduler.KeptOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left = nil
	return left
}

// drop removes a file, unless it went already to make room.
func (s *Store) drop(en *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.entries, en) {
		return nil
	}
	if err := s.remove(en.name); err != nil {
		return err
	}
	s.forget(en)
	return nil
}

func (s *Store) add(en *entry) {
	s.entries = append(s.entries, en)
	s.bytes += en.size
}

func (s *Store) forget(en *entry) {
	s.entries = slices.DeleteFunc(s.entries, func(e *entry) bool { return e == en })
	s.bytes -= en.size
}

// about is the logger of what happens to one outcome.
func (s *Store) about(g *ledger.Grant, e *ledger.Ending) *slog.Logger {
	c := &g.Claim
	return s.log.With("job", c.Job, "tick", c.Tick, "run", c.Run, "outcome", e.Outcome)
}

// inName is what of a run's id may stand in a file's name: all of it, for those that Rota makes.
func inName(run string) string {
	safe := strings.Map(func(r rune) rune {
		if r < 128 && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, run)
	return safe[:min(len(safe), 64)]
}
