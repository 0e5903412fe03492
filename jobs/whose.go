//go:build linux

package jobs

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

const (
	// lineageMost bounds how many generations are looked at, lineageTries how often, while parents end
	// under the eyes of whoever looks.
	lineageMost  = 1 << 10
	lineageTries = 5

	// announcePatience is how long a run that is being started may take to be announced by the warden,
	// whose word may come after the program's own first steps.
	announcePatience = time.Second
)

// RunOf returns the id, [Run].ID, of the run that a process belongs to, "" if to none that is going on in
// this Warden: for whoever hears from a process and has to know whose word it is.
//
// What decides is what no process can choose, its parents: they lead to the main process of the run.
// Those of an orphan do not. It is told by its cgroup, where runs have any; else by its mark or its process
// group, as when it is to be killed. A process can change these two, so they count only if it has the user
// of the run's main process, who may do to the run whatever he likes.
//
// A pid may be given away while it is looked at. So the caller holds a pidfd of the process, and asks that
// afterwards whether it still lives.
func (w *Warden) RunOf(pid int) string {
	w.mu.Lock()
	l := w.link
	w.mu.Unlock()
	if l == nil || l.isBroken() || pid <= 0 {
		return ""
	}
	buf := make([]byte, 4<<10)
	line := lineage(pid, l.proc.Pid, &buf)
	if line == nil {
		return ""
	}
	eldest := line[len(line)-1]
	if wd := l.byMain(eldest.pid); wd != nil {
		return wd.run
	}
	if wd := l.byCgroup(w.cgroups, eldest.pid, &buf); wd != nil {
		return wd.run
	}
	wd := l.byMark(eldest, &buf)
	if wd == nil {
		return ""
	}
	select {
	case <-wd.began:
	case <-time.After(announcePatience):
	}
	switch main := l.mainOf(wd); {
	case main == 0:
		return ""
	case main == eldest.pid: // it was announced meanwhile
		return wd.run
	case !sameUser(main, eldest.pid):
		return ""
	}
	return wd.run
}

// byMain returns the ward with this main process, nil if there is none.
func (l *link) byMain(pid int) *ward {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wd := range l.wards {
		if wd.main == pid {
			return wd
		}
	}
	return nil
}

// byCgroup returns the ward in whose cgroup a process is, nil if it is in none. Who could have moved there
// by itself is root, or the daemon's own user, whose are all runs then.
func (l *link) byCgroup(c *cgroups, pid int, buf *[]byte) *ward {
	if c == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wd := range l.wards {
		if dir, ok := c.of(wd.run); ok && (&runCgroup{cgroupDir: dir}).holds(pid, buf) {
			return wd
		}
	}
	return nil
}

// byMark returns the ward that a child of the warden shows to belong to, nil if it shows none.
func (l *link) byMark(p relative, buf *[]byte) *ward {
	id, marked := l.marks.of(p.pid, buf)
	if !marked {
		return l.byMain(p.group)
	}
	return l.find(id, false)
}

// mainOf returns the main process of a ward, 0 if it is not known, or over.
func (l *link) mainOf(wd *ward) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wards[wd.id] != wd {
		return 0
	}
	return wd.main
}

// A relative is one generation of a lineage.
type relative struct {
	process
	parent, group int
}

// lineage returns a process, its parent, and so on, up to the child of top. It is nil if the parents do not
// lead there.
func lineage(pid, top int, buf *[]byte) []relative {
	for range lineageTries {
		if line, again := ascend(pid, top, buf); !again {
			return line
		}
	}
	return nil
}

// ascend is one try at that. Again: somebody ended meanwhile, and what was read may be of two processes with
// one number. A parent that has not changed is the same one: children of one that ends get another.
func ascend(pid, top int, buf *[]byte) (line []relative, again bool) {
	for next := pid; next != top; {
		stat, err := readStat(next, buf)
		switch {
		case err != nil:
			return nil, len(line) > 0
		case stat.parent <= 1 || len(line) == lineageMost:
			return nil, false
		}
		line = append(line, relative{process{next, stat.start}, stat.parent, stat.group})
		next = stat.parent
	}
	for _, r := range line {
		if stat, err := readStat(r.pid, buf); err != nil || stat.start != r.start || stat.parent != r.parent {
			return nil, true
		}
	}
	return line, false
}

// sameUser tells whether two processes have one real user (proc_pid_status(5)). That of a dead process can
// be read until it is waited for, which a run's main process is last of all.
func sameUser(a, b int) bool {
	ua, okA := realUser(a)
	ub, okB := realUser(b)
	return okA && okB && ua == ub
}

func realUser(pid int) (uid string, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "", false
	}
	_, line, found := bytes.Cut(text, []byte("\nUid:"))
	fields := bytes.Fields(line)
	if !found || len(fields) == 0 {
		return "", false
	}
	return string(fields[0]), true
}
