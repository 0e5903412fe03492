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

// A spawner forks the warden's runs, one after the other, from threads that it keeps to itself and
// that live as long as the warden. Its thread is what the kernel hangs a run on: with its end it sends
// the main process the parent-death signal (PR_SET_PDEATHSIG in prctl(2)), so that the death of the
// warden alone ends it.
//
// The thread waits for each exec (CLONE_VFORK in clone(2)). On a file system that hangs that holds up all
// later starts, but nothing else, see [server.collect]; and not for ever, see [server.startLimit].
//
// There is a thread for the runs that name no priority, and one more for each priority that was named:
// a thread that has lowered its own could not raise it again (setpriority(2)). A fork at a low priority
// takes as long as that makes it on a busy host, and the next start waits for it.
type spawner struct {
	marks   marks
	cgroups *cgroups // nil: runs have none
	null    int      // /dev/null
	bell    *bell
	threads map[int]*forker // by priority, from noNice on; its user's alone

	mu   sync.Mutex
	done *job
}

// A forker is a thread of a spawner.
type forker struct {
	jobs   chan *job // with room for the one that is under way
	thread int
	err    error // it could not have its priority

	umask   int       // what it has by itself
	ambient []uintptr // likewise
}

// noNice stands for no priority. The least is -20.
const noNice = -21

// A job is one start. The spawner writes what it found out and hands it back.
type job struct {
	run    *served
	spec   *spec
	limits Limits
	files  []int // descriptors, closed by the spawner: the output alone, or the standard three; the rest is /dev/null
	thread int   // that forks it, once it was given to one

	struck bool // its child was killed while it was to become the program; the server's alone

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
	s := &spawner{marks: m, cgroups: c, null: null, bell: b, threads: map[int]*forker{}}
	s.forker(noNice)
	return s
}

// forker returns the thread for a priority, which it starts if there is none yet.
func (s *spawner) forker(nice int) *forker {
	f := s.threads[nice]
	if f == nil {
		f = &forker{jobs: make(chan *job, 1)}
		s.threads[nice] = f
		ready := make(chan struct{})
		go s.run(f, nice, ready)
		<-ready
	}
	return f
}

// give has a job started. There must be none under way.
func (s *spawner) give(j *job) {
	nice := noNice
	if j.spec.nice != nil {
		nice = *j.spec.nice
	}
	f := s.forker(nice)
	j.thread = f.thread
	f.jobs <- j
}

// run is the goroutine of a thread, which never ends.
func (s *spawner) run(f *forker, nice int, ready chan<- struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The first thread is where orphans come to; they must not be mixed up with its children.
		// It is kept, and another one taken.
		go s.run(f, nice, ready)
		select {}
	}
	f.thread = unix.Gettid()
	if nice != noNice {
		f.err = setNice(nice)
	}
	// From here on the mask is the thread's own (unshare(2)). Where a sandbox forbids that it stays the
	// warden's, which makes no files, and is set for the moment of a fork all the same.
	_ = unix.Unshare(unix.CLONE_FS)
	f.umask = unix.Umask(0)
	unix.Umask(f.umask)
	f.ambient = ambient()
	close(ready)
	for j := range f.jobs {
		j.start(s, f)
		j.discard()
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
func (j *job) start(s *spawner, f *forker) {
	if j.err = f.err; j.err != nil {
		return
	}
	attr := &syscall.ProcAttr{
		Dir:   j.spec.dir,
		Env:   j.spec.env,
		Files: j.standard(s.null),
		// A child whose parent is gone before it could ask for the signal kills itself: package
		// syscall compares the parent's pid after the prctl. That comes after the change of the
		// identity, which would take the signal back.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL, Credential: j.spec.as.credential()},
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
	if j.spec.umask != nil {
		unix.Umask(*j.spec.umask)
		defer unix.Umask(f.umask)
	}
	if j.spec.as != nil && len(f.ambient) > 0 {
		dropAmbient()
		defer raiseAmbient(f.ambient)
	}
	if j.pid, _, j.err = syscall.StartProcess(j.spec.path, j.spec.args, attr); j.err != nil {
		j.unconfine()
	}
	j.at = boottime()
}

// standard are the program's descriptors 0, 1 and 2.
func (j *job) standard(null int) []uintptr {
	n := uintptr(null)
	switch len(j.files) {
	case 0:
		return []uintptr{n, n, n}
	case standardFiles:
		return []uintptr{uintptr(j.files[0]), uintptr(j.files[1]), uintptr(j.files[2])}
	}
	return []uintptr{n, uintptr(j.files[0]), uintptr(j.files[0])}
}

// failure tells the kind of what was refused.
func (j *job) failure() failure {
	if _, ok := errors.AsType[*niceError](j.err); ok {
		return failedNice
	}
	return failedExec
}

// errno is why it was, for the wire.
func (j *job) errno() uint32 {
	if nice, ok := errors.AsType[*niceError](j.err); ok {
		return uint32(nice.errno)
	}
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
