//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// environs reads which run processes say they are of, in the environment that they were started with.
// Whoever looks for processes of several runs shares one among them.
//
// The kernel reads /proc/PID/environ through the process' memory, and waits for whoever holds
// that: next to a program that hangs on a dead file server a reader hangs too, as ps(1) does.
// Runs that have nothing to do with it must not. So each read has a goroutine, which is left
// behind after patience; as long as it hangs, its process is passed over as not of any run.
type environs struct {
	root     string        // "/proc"
	patience time.Duration // what a read may take

	mu    sync.Mutex
	stuck map[int]bool // by pid, which is not given away while its process hangs
	bufs  sync.Pool    // of *[]byte
}

// An environ is what one read showed.
type environ struct {
	runs  []string // the values of ROTA_RUN, of which there is one at most if nobody meddles
	blank bool     // there was nothing at all
	err   error
}

func newEnvirons() *environs {
	return &environs{root: "/proc", patience: 500 * time.Millisecond, stuck: map[int]bool{}}
}

// look reads a process' environment. One that may not be read, or hangs, names no run; the error is one
// that says nothing about the process.
func (e *environs) look(pid int) environ {
	e.mu.Lock()
	stuck := e.stuck[pid]
	e.mu.Unlock()
	if stuck {
		return environ{}
	}
	answer := make(chan environ, 1)
	go func() {
		answer <- e.read(pid)
		e.mu.Lock()
		delete(e.stuck, pid)
		e.mu.Unlock()
	}()
	timer := time.NewTimer(e.patience)
	defer timer.Stop()
	select {
	case env := <-answer:
		return env
	case <-timer.C:
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case env := <-answer:
		return env
	default: // its goroutine still has to pass the lock, and takes the mark away then
		e.stuck[pid] = true
		return environ{}
	}
}

func (e *environs) read(pid int) (env environ) {
	buf, ok := e.bufs.Get().(*[]byte)
	if !ok {
		buf = new(make([]byte, 16<<10))
	}
	defer e.bufs.Put(buf)
	text, err := readAll(e.root+"/"+strconv.Itoa(pid)+"/environ", buf)
	switch {
	case exhausted(err):
		return environ{err: err}
	case err != nil:
		return environ{}
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if run, ok := bytes.CutPrefix(entry, []byte(runVariable+"=")); ok {
			env.runs = append(env.runs, string(run))
		}
	}
	env.blank = len(text) == 0
	return env
}

// readAll reads a file of /proc to its end, into buf, which grows if need be. The end is where read(2)
// returns nothing, and nothing less: a list comes in pieces of a page at most, however much room there is
// (seq_read_iter in fs/seq_file.c). os.ReadFile would try to poll the file first.
func readAll(path string, buf *[]byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		m, err := unix.Read(fd, (*buf)[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return (*buf)[:n], nil
		}
		if n += m; n == len(*buf) {
			*buf = append(*buf, make([]byte, len(*buf))...)
		}
	}
}

// settled is look for a process that may be in the middle of an exec, or of its exit: it has no
// environment for a moment then, so it is asked again as long as that can change.
func (e *environs) settled(pid int, buf *[]byte) environ {
	for tries := 0; ; tries++ {
		env := e.look(pid)
		if !env.blank || tries == 20 {
			return env
		}
		if stat, err := readStat(pid, buf); err != nil || !stat.changing() {
			return env
		}
		time.Sleep(time.Millisecond)
	}
}

// exhausted tells a fault that says nothing about the process.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
