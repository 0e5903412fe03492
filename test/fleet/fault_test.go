package fleet

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/internal/redistest"
)

// claims picks the claim script: the only one that names three keys.
func claims(args []string) bool {
	return len(args) > 2 && strings.EqualFold(args[0], "evalsha") && args[2] == "3"
}

// A claim whose reply is dropped: the same host asks again and runs the tick, once.
func TestFleet_ClaimWithoutReply(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	p := redistest.Proxy(t, s.Addr())
	f := newFleet(t, s.Client())
	table := fmt.Sprintf("[jobs.beat]\nschedule = \"*/2 * * * * *\"\nshell = '%s'\n", f.markCommand())
	a := f.start("a", p.Addr(), table)
	b := f.start("b", p.Addr(), table)
	f.awaitHosts(2)
	eventually(t, 20*time.Second, func() error {
		if n := len(f.marks()); n < 2 {
			return fmt.Errorf("%d runs, want 2", n)
		}
		return nil
	})
	before := len(f.marks())
	p.DropReplies(3, claims)
	eventually(t, 20*time.Second, func() error {
		if n := len(f.marks()); n < before+4 {
			return fmt.Errorf("%d runs, want %d", n, before+4)
		}
		return nil
	})
	seen := map[time.Time]string{}
	for _, m := range f.marks() {
		if run, ok := seen[m.tick]; ok {
			t.Errorf("tick %s ran twice: %s and %s", m.tick, run, m.run)
		}
		seen[m.tick] = m.run
	}
	for _, e := range f.history("beat") {
		if e.Outcome != "succeeded" && e.Outcome != "running" {
			t.Errorf("tick %s: %s (%s), want succeeded: a lost reply costs nothing", e.Tick, e.Outcome, e.Reason)
		}
	}
	for _, d := range []*daemon{a, b} {
		if code := d.stop(); code != 0 {
			t.Errorf("%s drained with exit %d, want 0", d.name, code)
		}
	}
}

// Redis is frozen under a run: every process of the run is dead before the lease could end,
// the daemon lives, and goes on when Redis does.
func TestFleet_RedisFrozenUnderARun(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	pulse := filepath.Join(f.dir, "pulse")
	// The main process and a child of it say every 20 ms that they live; both ignore SIGTERM.
	table := fmt.Sprintf(`[jobs.work]
schedule = "*/5 * * * * *"
shell = '''%s
trap "" TERM
(trap "" TERM; while :; do date +%%s%%N >> %s.child; sleep 0.02; done) &
while :; do date +%%s%%N >> %s.main; sleep 0.02; done'''
[jobs.beat]
schedule = "* * * * * *"
shell = '%s'
`, f.markCommand(), pulse, pulse, f.markCommand())
	d := f.start("a", s.Addr(), table)
	eventually(t, 20*time.Second, func() error {
		_, err := os.Stat(pulse + ".child")
		return err
	})
	time.Sleep(time.Second)
	frozen := time.Now()
	s.Freeze()
	time.Sleep(ttl + time.Second)
	for _, who := range []string{"main", "child"} {
		last := lastPulse(t, pulse+"."+who)
		// The last renewal was sent before the freeze, so the lease ends ttl after it at most.
		if lived := last.Sub(frozen); lived >= ttl || lived < 0 {
			t.Errorf("%s lived until %s after the freeze, the lease until %s after it", who, lived, ttl)
		}
	}
	select {
	case <-d.done:
		t.Fatal("the daemon ended with its run")
	default:
	}
	s.Thaw()
	thawed := time.Now()
	eventually(t, 20*time.Second, func() error {
		for _, m := range f.marks() {
			if m.job == "beat" && m.tick.After(thawed) {
				return nil
			}
		}
		return fmt.Errorf("no run after the thaw")
	})
	eventually(t, 10*time.Second, func() error {
		for _, e := range f.history("work") {
			if e.Outcome == "lost" {
				return nil
			}
		}
		return fmt.Errorf("the run is not recorded as lost")
	})
	seen := map[string]bool{}
	for _, m := range f.marks() {
		key := m.job + m.tick.String()
		if seen[key] {
			t.Errorf("%s: tick %s ran twice", m.job, m.tick)
		}
		seen[key] = true
	}
	if n := d.log.count("redis went away"); n != 1 {
		t.Errorf("%d lines say that redis went away, want 1", n)
	}
	d.signal(syscall.SIGTERM)
	d.signal(syscall.SIGTERM) // the work job ignores everything but SIGKILL
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}

func lastPulse(t *testing.T, path string) time.Time {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What was being written when the kill came may be half a line.
	whole := string(b[:bytes.LastIndexByte(b, '\n')+1])
	lines := strings.Fields(whole)
	if len(lines) == 0 {
		t.Fatalf("%s: nothing written", path)
	}
	ns, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		t.Fatalf("%s: %q is not a time", path, b)
	}
	return time.Unix(0, ns)
}
