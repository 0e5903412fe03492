//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// carries tells whether a process shows the run's mark.
func (p *procs) carries(pid int) (bool, error) {
	if p.mark == nil {
		return false, nil
	}
	for tries := 0; ; tries++ {
		env := p.environs.look(pid, p.mark)
		// In the middle of an exec, and of an exit, a process has no environment for a moment.
		if !env.blank || tries == 20 || !p.changing(pid) {
			return env.carries, env.err
		}
		time.Sleep(time.Millisecond)
	}
}

// Where proc_pid_stat(5) has what is needed, counted from the field after the name, which may
// hold anything.
const (
	statState    = 0
	statParent   = 1
	statGroup    = 2
	statThreads  = 17
	statEnvStart = 47
	statEnvEnd   = 48 // both 0 without an address space
)

// stat returns the fields of /proc/PID/stat after the name, valid until the next call. Unlike
// the environment they can be had of a process that hangs.
func (p *procs) stat(pid int) ([][]byte, error) {
	text, err := readAll("/proc/"+strconv.Itoa(pid)+"/stat", &p.buf)
	if err != nil {
		return nil, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= statEnvEnd {
		return nil, unix.ESRCH
	}
	return fields, nil
}

// isMember tells whether pid is a live process of the group, and reaps it if it is a dead one
// that came to us. Nobody else waits for it: the children that are waited for lead their groups.
func (p *procs) isMember(pid int) bool {
	stat, err := p.stat(pid)
	if err != nil {
		// Gone; any other fault does not show that.
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH)
	}
	if string(stat[statGroup]) != strconv.Itoa(p.group) {
		return false
	}
	if !isDead(stat) {
		return true
	}
	if string(stat[statParent]) == strconv.Itoa(os.Getpid()) {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return false
}

// changing tells whether a process that showed no environment may show one in a moment. It may not
// if it is dead, or if its environment is empty and it sleeps: execve(2) begins with an empty one
// and fills it, and what is in the middle of that runs or waits for a page.
func (p *procs) changing(pid int) bool {
	stat, err := p.stat(pid)
	if err != nil || isDead(stat) {
		return false
	}
	start, end := string(stat[statEnvStart]), string(stat[statEnvEnd])
	return end == "0" || start != end || !bytes.ContainsAny(stat[statState], "STt")
}

// isDead tells a zombie, but not a leader whose other threads go on, which looks like one.
func isDead(stat [][]byte) bool {
	threads, _ := strconv.Atoi(string(stat[statThreads]))
	return bytes.ContainsAny(stat[statState], "ZX") && threads <= 1
}
