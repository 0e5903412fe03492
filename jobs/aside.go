//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// hangsAfter is how long something may take that the kernel does at once, unless a file system does not
// answer, until somebody is told.
const hangsAfter = 2 * time.Second

var (
	errFilesHang      = errors.New("the file system of the program, the directory or env_file does not answer")
	errFilesHangFirst = fmt.Errorf("%w by its start deadline: %w", errUnstarted, errFilesHang)
	errFilesHangStill = fmt.Errorf("%w: %w, and has not since an earlier run asked", errUnstarted, errFilesHang)
)

// asides are looks at files that were left behind because they hang. Of those for one program of a job there
// is never more than one: each of them holds a thread, and a job may come back every second.
type asides struct {
	mu   sync.Mutex
	hung map[string]bool
}

// aside calls look, and waits for it no longer than the run can be waited for. A file system that does
// not answer (a dead server, a mount that waits for a medium) so keeps nobody but those who named it. look
// must change nothing that others see.
func (c Command) aside(ctx context.Context, run Run, look func() error) error {
	if len(c.Args) == 0 {
		return look() // at nothing
	}
	key := strings.Join([]string{run.Job, c.Args[0], c.Dir, c.EnvFile, c.User, c.Group}, "\x00")
	switch {
	case run.overdue():
		return errOverdue
	case c.Warden.hangs(key):
		return errFilesHangStill
	}
	done := make(chan error, 1)
	var left sync.Mutex // decides between its end and being left
	abandoned, returned := false, false
	go func() {
		err := look()
		left.Lock()
		defer left.Unlock()
		returned = true
		if abandoned {
			c.Warden.setHangs(key, false)
			return
		}
		done <- err
	}()
	abandon := func(why error) error {
		left.Lock()
		defer left.Unlock()
		if returned {
			return <-done
		}
		abandoned = true
		c.Warden.setHangs(key, true)
		return why
	}
	var overdue <-chan time.Time
	if run.StartBy != 0 {
		timer := time.NewTimer(run.StartBy - boottime())
		defer timer.Stop()
		overdue = timer.C
	}
	slow := time.NewTimer(hangsAfter)
	defer slow.Stop()
	ended := ctx.Done()
	for {
		select {
		case err := <-done:
			return err
		case <-slow.C:
			c.Warden.tellHangs(run, errFilesHang)
		case <-overdue:
			return abandon(errFilesHangFirst)
		case <-ended:
			return abandon(errNotStarted)
		case <-run.Kill:
			return abandon(errNotStarted)
		}
	}
}

// hangs tells whether a look hangs that was left behind. Without a Warden nobody counts them.
func (w *Warden) hangs(key string) bool {
	if w == nil {
		return false
	}
	w.asides.mu.Lock()
	defer w.asides.mu.Unlock()
	return w.asides.hung[key]
}

func (w *Warden) setHangs(key string, hangs bool) {
	if w == nil {
		return
	}
	w.asides.mu.Lock()
	defer w.asides.mu.Unlock()
	if !hangs {
		delete(w.asides.hung, key)
		return
	}
	if w.asides.hung == nil {
		w.asides.hung = map[string]bool{}
	}
	w.asides.hung[key] = true
}

func (w *Warden) tellHangs(run Run, what error) {
	if w != nil {
		w.log.Warn("start hangs", "job", run.Job, "run", run.ID, "reason", what,
			"effect", "it is started when that answers, if its start deadline has not come by then")
	}
}

// touch asks for what exec will ask for: the directory, the program and its interpreter. The warden's exec holds
// up the starts of others, and this holds up nobody.
func (s *spec) touch() {
	_, _ = os.Stat(s.dir)
	if interpreter := interpreterOf(readHead(s.path)); interpreter != "" {
		_ = readHead(inDir(s.dir, interpreter))
	}
}
