package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// The lock of a run is deleted, flushed away, or overwritten: the run's processes are dead
// within a renewal and the loss grace, it is recorded as lost, the old holder does not make the
// key again, and the next tick runs under a larger token.
func TestFleet_LockTakenAwayUnderARun(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, c := range []struct {
		name string
		do   []any // a Redis command; LOCK stands for the key
		mend []any // what an operator does afterwards
	}{
		{"deleted", []any{"DEL", "LOCK"}, nil},
		{"FLUSHALL", []any{"FLUSHALL"}, nil},
		{"another's", []any{"SET", "LOCK", "0123|99|9000|somebody", "PX", "2000"}, nil},
		{"no lease", []any{"SET", "LOCK", "somebody"}, []any{"DEL", "LOCK"}},
		{"a list", []any{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1", "LOCK"}, []any{"DEL", "LOCK"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t)
			f := newFleet(t, s.Client())
			pulse := filepath.Join(f.dir, "pulse")
			// Only the first run stays; the later ones are over at once.
			table := fmt.Sprintf(`[jobs.work]
schedule = "*/3 * * * * *"
shell = '''%s
[ -e %s ] && exit 0
trap "" TERM
while :; do date +%%s%%N >> %s; sleep 0.02; done'''
`, f.markCommand(), pulse, pulse)
			d := f.start("a", s.Addr(), table)
			eventually(t, 20*time.Second, func() error {
				_, err := os.Stat(pulse)
				return err
			})
			time.Sleep(500 * time.Millisecond)
			const lock = "{fleet}:lock:work"
			s.Do(withLock(c.do, lock)...)
			done := time.Now()
			eventually(t, 10*time.Second, func() error {
				if last := lastPulse(t, pulse); time.Since(last) < 500*time.Millisecond {
					return fmt.Errorf("the run goes on")
				}
				return nil
			})
			// A renewal every 400 ms, then 500 ms of grace, and some for a busy machine.
			if lived := lastPulse(t, pulse).Sub(done); lived > 1500*time.Millisecond {
				t.Errorf("the run lived %s after its lock was taken away, want under renew_every + loss_grace", lived)
			}
			if c.mend != nil {
				eventually(t, 10*time.Second, func() error {
					if !strings.Contains(d.log.String(), lock) || d.log.count("claim refused by redis") == 0 {
						return fmt.Errorf("the log does not name %s", lock)
					}
					return nil
				})
				s.Do(withLock(c.mend, lock)...)
			}
			eventually(t, 15*time.Second, func() error {
				if len(f.marks()) < 2 {
					return fmt.Errorf("no tick ran afterwards")
				}
				return nil
			})
			marks := f.marks()
			if first, next := marks[0], marks[1]; next.token <= first.token {
				t.Errorf("the next run has token %d, want above %d", next.token, first.token)
			}
			for _, e := range f.history("work") {
				if e.Run == marks[0].run && e.Outcome != ledger.OutcomeLost {
					t.Errorf("the run is recorded as %s (%s), want lost", e.Outcome, e.Reason)
				}
			}
			if code := d.stop(); code != 0 {
				t.Errorf("exit %d, want 0", code)
			}
		})
	}
}

// The counter of a lock is deleted, spoilt, or of another type. Deleted, the clock takes over;
// else nothing runs until somebody has removed it, and the log says which key. Tokens rise.
func TestFleet_FenceTakenAway(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	table := fmt.Sprintf("[jobs.work]\nschedule = \"* * * * * *\"\nshell = '%s'\n", f.markCommand())
	d := f.start("a", s.Addr(), table)
	const fence = "{fleet}:lock:work:fence"
	more := func(what string) {
		t.Helper()
		n := len(f.marks())
		eventually(t, 15*time.Second, func() error {
			if len(f.marks()) < n+2 {
				return fmt.Errorf("%s: no more runs", what)
			}
			return nil
		})
	}
	more("at first")
	s.Do("DEL", fence)
	more("counter deleted")
	for _, spoil := range [][]any{
		{"SET", fence, "abc"},
		{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1", fence},
	} {
		refused := d.log.count("claim refused by redis")
		s.Do(spoil...)
		eventually(t, 10*time.Second, func() error {
			if d.log.count("claim refused by redis") <= refused || !strings.Contains(d.log.String(), fence) {
				return fmt.Errorf("%v: the log does not say that %s is spoilt", spoil, fence)
			}
			return nil
		})
		n := len(f.marks())
		time.Sleep(1500 * time.Millisecond)
		if len(f.marks()) != n {
			t.Errorf("%v: a tick ran without a counter", spoil)
		}
		if lease := s.Do("EXISTS", "{fleet}:lock:work"); lease != int64(0) {
			t.Errorf("%v: a lock stands without a token: EXISTS = %v", spoil, lease)
		}
		s.Do("DEL", fence)
		more("counter removed")
	}
	last := int64(0)
	for _, m := range f.marks() {
		if m.token <= last {
			t.Errorf("tick %s has token %d, not above %d", m.tick, m.token, last)
		}
		last = m.token
	}
}

func withLock(command []any, lock string) []any {
	out := make([]any, len(command))
	for i, a := range command {
		if out[i] = a; a == "LOCK" {
			out[i] = lock
		}
	}
	return out
}
