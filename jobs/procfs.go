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

// carries reads a process' environment. One that may not be read is not of the run.
func (p *procs) carries(pid int) (bool, error) {
	if p.mark == nil {
		return false, nil
	}
	// In the middle of an exec, and of an exit, a process has no environment for a moment.
	for tries := 0; ; tries++ {
		environ, err := p.readProc(pid, "environ")
		if err != nil {
			if exhausted(err) {
				return false, err
			}
			return false, nil
		}
		if len(environ) > 0 || tries == 20 || !p.changing(pid) {
			for entry := range bytes.SplitSeq(environ, []byte{0}) {
				if bytes.Equal(entry, p.mark) {
					return true, nil
				}
			}
			return false, nil
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

// stat returns the fields of /proc/PID/stat after the name.
func (p *procs) stat(pid int) ([][]byte, error) {
	text, err := p.readProc(pid, "stat")
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

// changing tells whether a process that showed no environment may show one in a moment: it lives
// and has not an empty one. Its address space may also have been replaced while it was read.
func (p *procs) changing(pid int) bool {
	stat, err := p.stat(pid)
	if err != nil || isDead(stat) {
		return false
	}
	start, end := string(stat[statEnvStart]), string(stat[statEnvEnd])
	return end == "0" || start != end
}

// isDead tells a zombie, but not a leader whose other threads go on, which looks like one.
func isDead(stat [][]byte) bool {
	threads, _ := strconv.Atoi(string(stat[statThreads]))
	return bytes.ContainsAny(stat[statState], "ZX") && threads <= 1
}

// readProc reads a file of a process. The text is valid until the next call. os.ReadFile would
// try to poll the file, at twice the price.
func (p *procs) readProc(pid int, file string) ([]byte, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		m, err := unix.Read(fd, p.buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n += m; n < len(p.buf) {
			// What /proc has of one process comes in one piece if there is room for it.
			return p.buf[:n], nil
		}
		p.buf = append(p.buf, make([]byte, len(p.buf))...)
	}
}

// exhausted tells a fault that says nothing about the process.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
