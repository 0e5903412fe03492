//go:build linux

package jobs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The spawner itself looks at the clock, and whether the end was asked for, last of all.
func TestSpawner_LooksLast(t *testing.T) {
	b, err := newBell()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := newSpawner(marks{}, nil, int(null.Fd()), b)
	defer close(s.threads[noNice].jobs)
	if s.threads[noNice].thread == os.Getpid() {
		t.Error("it has the thread that orphans come to")
	}
	for _, c := range []struct {
		name string
		kill time.Duration
		stop bool
		late bool
	}{
		{"in time", boottime() + time.Minute, false, false},
		{"without a deadline", 0, false, false},
		{"at its deadline", boottime(), false, true},
		{"asked to end", boottime() + time.Minute, true, true},
	} {
		trace := filepath.Join(t.TempDir(), "trace")
		j := &job{run: &served{id: 1}, spec: &spec{path: "/bin/sh", dir: "/", args: Shell(": >" + trace)}}
		j.kill.Store(int64(c.kill))
		j.stop.Store(c.stop)
		s.give(j)
		eventually(t, "the start is done", func() bool { return s.take() == j })
		if j.late != c.late || j.err != nil || (j.pid > 0) == c.late {
			t.Errorf("%s: late %v, %v, pid %d; want late %v", c.name, j.late, j.err, j.pid, c.late)
		}
		if !c.late {
			// The shared warden's daemon, which is this process, reaps it.
			eventually(t, "the program has ended", func() bool { return ended(j.pid) })
		}
		if _, err := os.Stat(trace); (err == nil) == c.late {
			t.Errorf("%s: its trace: %v", c.name, err)
		}
	}
}
