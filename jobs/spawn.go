//go:build linux

package jobs

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A spawner forks the warden's runs, one after the other, from a thread that it keeps to itself and
// that lives as long as the warden. The thread is what the kernel hangs them on: with its end it sends
// each main process the parent-death signal (PR_SET_PDEATHSIG in prctl(2)), so that the death of the
// warden alone ends them.
//
// The thread waits for each exec (CLONE_VFORK in clone(2)). On a file system that hangs that is for
// ever, and holds up all later starts, but nothing else: see [server.collect].
type spawner struct {
	marks   marks
	cgroups *cgroups // nil: runs have none
	null    int      // /dev/null
	bell    *bell
	jobs    chan *job // with room for the one that is under way
	thread  int

	mu   sync.Mutex
	done *job
}

// A job is one start. The spawner writes what it found out and hands it back.
type job struct {
	run    *served
	spec   *spec
	limits Limits
	output int // a descriptor, closed by the spawner; -1: /dev/null

	// What may change until exec.
	kill atomic.Int64 // see [Deadlines]
	stop atomic.Bool  // its end was asked for

	pid  int
	err  error
	late bool // not started: kill had come, or stop
	at   time.Duration

	cgroup *runCgroup // nil: it has none
	flaws  []flawMessage
}

func newSpawner(m marks, c *cgroups, null int, b *bell) *spawner {
	s := &spawner{marks: m, cgroups: c, null: null, bell: b, jobs: make(chan *job, 1)}
	ready := make(chan int)
	go s.run(ready)
	s.thread = <-ready
	return s
}

// run is the spawner's goroutine, which never ends.
func (s *spawner) run(ready chan<- int) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The first thread is where orphans come to; they must not be mixed up with its children.
		// It is kept, and another one taken.
		go s.run(ready)
		select {}
	}
	ready <- unix.Gettid()
	for j := range s.jobs {
		j.start(s)
		if j.output >= 0 {
			unix.Close(j.output)
		}
		s.mu.Lock()
		s.done = j
		s.mu.Unlock()
		s.bell.ring()
	}
}

// take returns the start that is done, nil if none is.
func (s *spawner) take() *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.done
	s.done = nil
	return j
}

// start forks and executes, unless it is too late for that.
func (j *job) start(s *spawner) {
	output := s.null
	if j.output >= 0 {
		output = j.output
	}
	attr := &syscall.ProcAttr{
		Dir:   j.spec.dir,
		Env:   j.spec.env,
		Files: []uintptr{uintptr(s.null), uintptr(output), uintptr(output)},
		// A child whose parent is gone before it could ask for the signal kills itself: package
		// syscall compares the parent's pid after the prctl.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},
	}
	if j.err = s.marks.set(j.run.id); j.err != nil {
		return
	}
	if j.confine(s.cgroups); j.cgroup != nil {
		j.cgroup.into(attr.Sys)
	}
	// The last look at the clock before exec. What is under way when kill comes is killed by the
	// server, see [server.stopStart].
	if kill := time.Duration(j.kill.Load()); j.stop.Load() || kill != 0 && boottime() >= kill {
		j.late = true
		j.unconfine()
		return
	}
	if j.pid, _, j.err = syscall.StartProcess(j.spec.path, j.spec.args, attr); j.err != nil {
		j.unconfine()
	}
	j.at = boottime()
}

// errno is why exec was refused, for the wire.
func (j *job) errno() uint32 {
	if errno, ok := errors.AsType[syscall.Errno](j.err); ok {
		return uint32(errno)
	}
	return uint32(unix.EINVAL)
}

// A bell wakes the server's loop from other goroutines: an eventfd(2), which poll(2) can wait for.
type bell struct{ fd int }

func newBell() (*bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return &bell{fd}, err
}

func (b *bell) ring() {
	// It fails only if it rings already, 2^64 times.
	_, _ = unix.Write(b.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (b *bell) quiet() { _, _ = unix.Read(b.fd, make([]byte, 8)) }
