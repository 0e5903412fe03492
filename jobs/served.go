//go:build linux

package jobs

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A served run is one in the warden, from its start message to its failed or ended one. It is the
// server's loop's alone, except for its job.
type served struct {
	id       runID
	run      string // ROTA_RUN
	life     life
	told     stage // whose signals were sent
	job      *job  // what the spawner gets
	pid      int   // of the main process; 0 until it is started
	members  members
	family   *family   // of members, or what is besides them of it
	confined *confined // members, if the run has a cgroup
	usage    usage     // of orphans that have ended
}

// family are the processes that came from a run's main process: its process group, everything below
// it, and the orphans that came from there to the warden, with everything below those.
//
// That finds all of them. A live process of the run whose parents all live is below the main process.
// When a parent ends, its children become the warden's own, in the same moment (forget_original_parent
// in kernel/exit.c). So once the main process has ended, what still lives of the run hangs on one of
// the warden's orphans; and of those the warden has looked at each since.
type family struct {
	main    int
	tree    *tree
	orphans map[int]*orphan // that live, by pid
	doubt   *int            // how many orphans of the warden may be anybody's still

	// reached tells of a process whether it gets what is sent to the run without being looked for: with
	// the group, or with the cgroup.
	reached func(process, procStat) bool

	sent  []syscall.Signal // what the run got last
	times int              // how often it got something
	told  map[process]int  // who was seen to be of the run, and when it was last signalled by itself
}

func newFamily(main int, o *orphans) *family {
	f := &family{main: main, tree: o.tree, orphans: map[int]*orphan{}, doubt: &o.doubt, told: map[process]int{}}
	f.reached = func(_ process, stat procStat) bool { return stat.group == main }
	return f
}

func (f *family) alive() bool { return len(f.orphans) > 0 || *f.doubt > 0 }

// signal looks before it sends, because what it is about to end may be all that shows whose the others
// are; and after, for those that are not in the group, or have just left it.
func (f *family) signal(sigs ...syscall.Signal) {
	f.note()
	signalGroup(f.main, sigs)
	f.sendEach(sigs)
}

// note remembers who is below the main process.
func (f *family) note() { f.tree.below(f.main, func(p process, _ procStat) { f.told[p] += 0 }) }

// sendEach signals those that are not reached otherwise, one by one.
func (f *family) sendEach(sigs []syscall.Signal) {
	f.sent = sigs
	f.times++
	f.tree.below(f.main, f.tell)
	for _, o := range f.orphans {
		f.adopt(o)
	}
}

// knows tells whether a process was seen to be of the run.
func (f *family) knows(p process) bool {
	_, ok := f.told[p]
	return ok
}

// adopt takes an orphan in. It and what is below it get what the run got, if they have not.
func (f *family) adopt(o *orphan) {
	f.orphans[o.pid] = o
	if f.sent == nil {
		return
	}
	if stat, err := readStat(o.pid, &f.tree.buf); err == nil {
		f.tell(o.process, stat)
	}
	f.tree.below(o.pid, f.tell)
}

func (f *family) tell(p process, stat procStat) {
	if f.reached(p, stat) {
		f.told[p] += 0
		return
	}
	if f.told[p] != f.times {
		f.told[p] = f.times
		f.tree.signal(p, f.sent)
	}
}

// hasExited tells whether a child has ended, and leaves it a zombie. As long as a main process is one,
// its pid, which is the group's number too, cannot be given to anybody else.
func hasExited(pid int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil {
			return info.Signo != 0
		}
		if !errors.Is(err, unix.EINTR) {
			return true // no child of ours
		}
	}
}

// reap takes a zombie's status, and what it used, it and those that it had waited for. ok is false if
// there was no zombie.
func reap(pid int) (status syscall.WaitStatus, used usage, ok bool) {
	var ru syscall.Rusage
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &ru)
		if !errors.Is(err, syscall.EINTR) {
			return status, usageOf(&ru), err == nil && got == pid
		}
	}
}

// usageOf reads what getrusage(2) tells, which counts memory in kilobytes.
func usageOf(ru *syscall.Rusage) usage {
	peak := int64(ru.Maxrss) << 10 //nolint:unconvert // it has 32 bits on some machines
	return usage{cpu: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), peakBytes: peak}
}

// add is the usage of two processes, or sets of them.
func (u usage) add(v usage) usage { return usage{u.cpu + v.cpu, max(u.peakBytes, v.peakBytes)} }
