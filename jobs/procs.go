//go:build linux

package jobs

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// procs finds the processes of one run in /proc, without its main process: the members of its
// process group, and the carriers, which left the group (setsid(1), a shell's job control) but
// still show ROTA_RUN=ID in the environment they were started with.
//
// One search costs a getpgid per process of the host and reading the environment of those that
// are not kernel threads: 10 to 20 µs each. A run that leaves nothing behind makes one search, at
// its end. On two busy cores it took 0.7 ms with few processes, where a fork and exec take 1 ms and
// a whole run 1.6 ms, and 13 to 25 ms with 1000 more (BenchmarkProcs_Search, BenchmarkCommand_Run).
//
// What was found is held by a pidfd where the kernel has them (Linux 5.4), so that it is not
// taken for a process that gets its pid later, and stays known when it leaves the group.
//
// Orphans come to this process if it is PID 1 or a child subreaper (PR_SET_CHILD_SUBREAPER in
// prctl(2)). procs reaps those that are its run's beyond doubt: dead members, and what it held.
type procs struct {
	group int
	run   string // "" when it has no id
	held  []proc
	sigs  []syscall.Signal // what a carrier gets when it is found

	environs *environs
	buf      []byte
}

// A proc is a process that was found. pidfd is -1 if the kernel has none.
type proc struct{ pid, pidfd int }

func newProcs(group int, run string, e *environs) *procs {
	return &procs{group: group, run: run, environs: e, buf: make([]byte, 4<<10)}
}

// alive tells whether any lives. It looks at those it holds, and searches when they are gone.
func (p *procs) alive() bool {
	p.held = slices.DeleteFunc(p.held, p.ended)
	if len(p.held) > 0 {
		return true
	}
	// A search that failed (no descriptor free) has not shown that there is none.
	return p.search() != nil || len(p.held) > 0
}

// signal sends sigs to the whole group at once, then to the carriers there are now, and to those found
// later.
func (p *procs) signal(sigs ...syscall.Signal) {
	signalGroup(p.group, sigs)
	for _, c := range p.held {
		if group, err := unix.Getpgid(c.pid); err == nil && group != p.group {
			c.signal(sigs)
		}
	}
	p.sigs = sigs
	// What it found before it failed, if it did, was signalled; the rest is found later.
	_ = p.search()
}

// search looks at every process of the host and holds those of the run. The error is one that
// kept it from looking at all of them.
func (p *procs) search() (failed error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == p.group || pid == os.Getpid() ||
			slices.ContainsFunc(p.held, func(c proc) bool { return c.pid == pid }) {
			continue
		}
		group, err := unix.Getpgid(pid)
		if err != nil || group == 0 { // gone, or a kernel thread
			continue
		}
		if group == p.group {
			failed = errors.Join(failed, p.hold(pid))
		} else if carries, err := p.carries(pid); err != nil {
			failed = errors.Join(failed, err)
		} else if carries {
			failed = errors.Join(failed, p.hold(pid))
		}
	}
	return failed
}

// hold takes hold of a process that is of the run. It looks again after the pidfd was opened: from
// then on the two are the same process. It may have left the group meanwhile.
func (p *procs) hold(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case exhausted(err):
		return err
	case err != nil:
		fd = -1
	}
	c := proc{pid, fd}
	if !p.isMember(pid) {
		if carries, err := p.carries(pid); err != nil || !carries {
			c.close()
			return err
		}
	}
	p.held = append(p.held, c)
	if group, err := unix.Getpgid(pid); err == nil && group != p.group {
		c.signal(p.sigs)
	}
	return nil
}

// ended tells whether a held process has ended, and reaps it and lets it go if so.
func (p *procs) ended(c proc) bool {
	if c.pidfd < 0 {
		carries, err := p.carries(c.pid)
		return err == nil && !carries && !p.isMember(c.pid)
	}
	// pidfd_open(2): readable once the process has ended, with all its threads.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, 0)
	if err != nil || n == 0 {
		return false
	}
	_ = unix.Waitid(unix.P_PIDFD, c.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
	c.close()
	return true
}

// carries tells whether a process says that it is of the run.
func (p *procs) carries(pid int) (bool, error) {
	if p.run == "" {
		return false, nil
	}
	env := p.environs.settled(pid, &p.buf)
	return slices.Contains(env.runs, p.run), env.err
}

// isMember tells whether pid is a live process of the group, and reaps it if it is a dead one
// that came to us. Nobody else waits for it: the children that are waited for lead their groups.
func (p *procs) isMember(pid int) bool {
	stat, err := readStat(pid, &p.buf)
	if err != nil {
		// Gone; any other fault does not show that.
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH)
	}
	if stat.group != p.group || !stat.dead() {
		return stat.group == p.group
	}
	if stat.parent == os.Getpid() {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return false
}

func (c proc) signal(sigs []syscall.Signal) {
	for _, sig := range sigs {
		if c.pidfd >= 0 {
			_ = unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
		} else {
			_ = syscall.Kill(c.pid, sig)
		}
	}
}

func (c proc) close() {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
}
