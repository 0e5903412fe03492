package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A proc is a process. Its pid may be given to another one later; together with the time at which
// it started it is not.
type proc struct {
	pid   int
	start string // in clock ticks since boot
}

// remains is what a killed host left: after a while, or at once nothing.
type remains struct {
	left []proc
	took time.Duration // until nothing was left, or until nobody waited any more
}

// awaitGone waits until the processes, and all runs that were started under a config, are gone.
func awaitGone(procs []proc, config string, limit time.Duration) *remains {
	began := time.Now()
	for {
		for _, p := range runsUnder(config) {
			if !slices.Contains(procs, p) {
				procs = append(procs, p)
			}
		}
		procs = slices.DeleteFunc(procs, func(p proc) bool { return !p.lives() })
		took := time.Since(began)
		if len(procs) == 0 || took > limit {
			return &remains{left: procs, took: took}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// descendants are the processes below pid, as proc(5) has them now. One that is forked meanwhile
// may be missed; if it is of a run, runsUnder finds it.
func descendants(pid int) []proc {
	children := map[int][]proc{}
	for _, p := range processes() {
		if st, ok := stat(p); ok {
			children[st.parent] = append(children[st.parent], proc{p, st.start})
		}
	}
	var all []proc
	for next := children[pid]; len(next) > 0; {
		all = append(all, next...)
		var below []proc
		for _, p := range next {
			below = append(below, children[p.pid]...)
		}
		next = below
	}
	return all
}

// runsUnder are the processes of runs whose ROTA_CONFIG begins with path: the mark that a run
// keeps wherever it goes, and that no other fleet on this machine has.
func runsUnder(path string) []proc {
	mark := []byte("ROTA_CONFIG=" + path)
	var all []proc
	for _, p := range processes() {
		env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p), "environ"))
		if err != nil || !bytes.HasPrefix(env, mark) && !bytes.Contains(env, append([]byte{0}, mark...)) {
			continue // gone, another user's, or none of ours
		}
		if st, ok := stat(p); ok && st.alive {
			all = append(all, proc{p, st.start})
		}
	}
	return all
}

func (p proc) lives() bool {
	st, ok := stat(p.pid)
	return ok && st.alive && st.start == p.start
}

// kill ends the process for good. It asks first: the pid may be somebody else's by now.
func (p proc) kill() {
	if p.lives() {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// processes are the pids of all processes.
func processes() []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

type procStat struct {
	alive  bool // a zombie is not
	parent int
	start  string
}

// stat reads the fields state, ppid and starttime of /proc/PID/stat (proc_pid_stat(5)). They
// follow the command's name, which stands in parentheses and may hold any character.
func stat(pid int) (procStat, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return procStat{}, false
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 20 {
		return procStat{}, false
	}
	parent, _ := strconv.Atoi(f[1])
	return procStat{alive: f[0] != "Z" && f[0] != "X", parent: parent, start: f[19]}, true
}
