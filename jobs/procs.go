//go:build linux

package jobs

import (
	"bytes"
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
// are not kernel threads. A run that leaves nothing behind makes one search, at its end. It took
// 0.2 ms on a host with 75 processes and 11 ms on one with 1000 more; BenchmarkProcs_Search
// measures it.
//
// A carrier found is held by a pidfd where the kernel has them (Linux 5.4), so that a signal
// cannot hit a process that got its pid later.
//
// Orphans come to the daemon if it is PID 1 or a child subreaper (PR_SET_CHILD_SUBREAPER in
// prctl(2)); procs reaps those that it can tell are its own: members, and carriers it found.
type procs struct {
	group    int
	mark     []byte // "ROTA_RUN=ID"; nil when the run has no id
	members  []int  // found by the last search
	carriers []carrier
}

// A carrier is a process outside of the group. pidfd is -1 if the kernel has none.
type carrier struct{ pid, pidfd int }

func newProcs(group int, run string) *procs {
	p := &procs{group: group}
	if run != "" {
		p.mark = []byte(runVariable + "=" + run)
	}
	return p
}

// alive tells whether any lives. It looks at those it knows, and searches when they are gone.
func (p *procs) alive() bool {
	p.members = slices.DeleteFunc(p.members, func(pid int) bool { return !p.isMember(pid) })
	p.carriers = slices.DeleteFunc(p.carriers, func(c carrier) bool { return p.ended(c) })
	if len(p.members)+len(p.carriers) > 0 {
		return true
	}
	// A search that failed (no descriptor free) has not shown that there is none.
	return p.search() != nil || len(p.members)+len(p.carriers) > 0
}

// signalCarriers signals the carriers there are now; the group is signalled by its number.
func (p *procs) signalCarriers(sigs ...syscall.Signal) {
	if p.mark == nil {
		return
	}
	// What was found before a failure is signalled.
	_ = p.search()
	for _, c := range p.carriers {
		for _, sig := range sigs {
			if c.pidfd >= 0 {
				_ = unix.PidfdSendSignal(c.pidfd, sig, nil, 0)
			} else {
				_ = syscall.Kill(c.pid, sig)
			}
		}
	}
}

// release lets go of what the last search found.
func (p *procs) release() {
	for _, c := range p.carriers {
		c.close()
	}
	p.members, p.carriers = nil, nil
}

// search looks at every process of the host.
func (p *procs) search() error {
	proc, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return err
	}
	var failed error
	p.members = p.members[:0]
	environ := make([]byte, 16<<10)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == p.group || pid == os.Getpid() {
			continue
		}
		switch group, err := unix.Getpgid(pid); {
		case err != nil || group == 0: // gone, or a kernel thread
		case group == p.group:
			if p.isMember(pid) {
				p.members = append(p.members, pid)
			}
		case p.mark != nil && !p.knows(pid):
			var carries bool
			if carries, environ, err = p.carries(pid, environ); err == nil && carries {
				err = p.hold(pid, environ)
			}
			if err != nil {
				failed = err
			}
		}
	}
	return failed
}

func (p *procs) knows(pid int) bool {
	return slices.ContainsFunc(p.carriers, func(c carrier) bool { return c.pid == pid })
}

// hold adds a carrier. It looks at the environment once more after the pidfd was opened: from
// then on the two are the same process.
func (p *procs) hold(pid int, environ []byte) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return err
	case err != nil:
		fd = -1
	}
	c := carrier{pid, fd}
	if carries, _, err := p.carries(pid, environ); err != nil || !carries {
		c.close()
		return err
	}
	p.carriers = append(p.carriers, c)
	return nil
}

// carries reads a process' environment into environ, which it returns, grown if need be. One
// that may not be read is not ours.
func (p *procs) carries(pid int, environ []byte) (bool, []byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/environ", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
			return false, environ, err
		}
		return false, environ, nil
	}
	defer unix.Close(fd)
	n := 0
	for {
		m, err := unix.Read(fd, environ[n:])
		if err != nil || m <= 0 { // it ended meanwhile, or this was all
			break
		}
		if n += m; n == len(environ) {
			environ = append(environ, make([]byte, len(environ))...)
		}
	}
	for entry := range bytes.SplitSeq(environ[:n], []byte{0}) {
		if bytes.Equal(entry, p.mark) {
			return true, environ, nil
		}
	}
	return false, environ, nil
}

// isMember tells whether pid is a live process of the group, and reaps it if it is a dead one
// that came to us. Nobody else waits for it: the children that are waited for lead their groups.
func (p *procs) isMember(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return false
	}
	if err != nil {
		return true
	}
	// proc_pid_stat(5): pid (comm) state ppid pgrp … num_threads, the 20th; comm may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 18 || string(fields[2]) != strconv.Itoa(p.group) {
		return false
	}
	// A leader whose other threads go on is shown as a zombie, too.
	if state := fields[0][0]; state != 'X' && (state != 'Z' || string(fields[17]) != "1") {
		return true
	}
	if string(fields[1]) == strconv.Itoa(os.Getpid()) {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return false
}

// ended tells whether a carrier has ended, and reaps and forgets it if so.
func (p *procs) ended(c carrier) bool {
	if c.pidfd < 0 {
		carries, _, err := p.carries(c.pid, make([]byte, 16<<10))
		return err == nil && !carries
	}
	// pidfd_open(2): readable once the process is a zombie.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}, 0)
	if err != nil || n == 0 {
		return false
	}
	_ = unix.Waitid(unix.P_PIDFD, c.pidfd, nil, unix.WEXITED|unix.WNOHANG, nil)
	c.close()
	return true
}

func (c carrier) close() {
	if c.pidfd >= 0 {
		unix.Close(c.pidfd)
	}
}
