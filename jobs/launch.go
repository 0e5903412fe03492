//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// launch starts a warden and waits until it serves.
//
// It is this very binary, by way of /proc/self/exe, also if another version was installed over it
// meanwhile: the two ends always speak alike. It has a session of its own, so that a ^C at the
// daemon's terminal does not reach it, and an environment that nobody reads but the Go runtime, and
// whoever looks for processes by their environment.
func (w *Warden) launch() (*link, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	args, files := []string{wardenName}, []*os.File{null, null, os.Stderr, wardenSocket: theirs}
	if w.cgroups != nil {
		args, files = append(args, string(w.cgroups.dir)), append(files, w.cgroups.lock())
	}
	proc, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Dir: "/",
		// Two threads are enough, also while one of them waits for an exec.
		Env:   merge(os.Environ(), []string{"GOMAXPROCS=2", wardenVariable + "=1"}),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	l, err := newLink(ours, proc, w.log)
	if err != nil {
		// Nothing was started by it yet.
		_ = proc.Kill()
		_, _ = proc.Wait()
		return nil, errors.Join(err, ours.Close())
	}
	return l, nil
}

// dismiss ends a warden in order: it kills what it still has when its connection ends. What is left by
// one that does not end is killed here.
func (w *Warden) dismiss(l *link) error {
	l.fail(errWardenClosed)
	l.disconnect()
	ended := make(chan error, 1)
	go func() {
		state, err := l.proc.Wait()
		if err == nil && !state.Success() {
			err = fmt.Errorf("the warden ended with %v: processes of runs may be left", state)
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		l.giveUp()
		return err
	case <-time.After(closePatience):
		return errors.Join(fmt.Errorf("the warden did not end within %v", closePatience), w.bury(l))
	}
}
