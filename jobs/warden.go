//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// wardenVariable is in the environment of a warden, so that a program which forgets to ask
	// IsWarden does not start wardens without end.
	wardenVariable = reserved + "WARDEN"

	launchPatience = 10 * time.Second // how long a new warden may take until it serves
	closePatience  = 12 * time.Second // how long an old one may take to kill what is left; above lastPatience
	buryPatience   = 2 * time.Second  // how long that is tried without it, once the Warden is closed
	linkPatience   = 5 * time.Second  // how long a start waits for a warden while there is none

	// After one that did not live long, the next warden is started later and later.
	relaunchMin = 50 * time.Millisecond
	relaunchMax = 5 * time.Second

	remind = 5 * time.Minute // how often a fault that lasts is said again
)

// WardenOptions configure a [Warden].
type WardenOptions struct {
	// Logger gets the loss of the warden, as an error: runs were killed, and somebody should know
	// why. It also gets processes that belong to no run, and what is the matter with cgroups. Nil:
	// nothing is logged.
	Logger *slog.Logger

	// Cgroups gives each run a cgroup of its own, with its [Limits], if one is delegated to this
	// process (cgroups(7), "Cgroups delegation"). What a run leaves behind then shows whose it is
	// whatever it did, and is killed in one step; what all of it used is known.
	//
	// This process moves into a child of its cgroup for that, and ends what runs of earlier processes
	// left there, which may take some seconds. It must not have children yet. Where none is delegated
	// everything goes on without, and the log says why.
	Cgroups bool
}

// A Warden is a second, small process of the same program, which starts the runs of this one, the
// daemon, and ends them when the daemon no longer vouches for them. The daemon makes one, gives it to
// every [Command], and closes it after its last run.
//
// The warden kills a run at the instants of its [Deadlines], whatever the daemon does by then: if it
// hangs, if it is stopped, if it never comes back. If the daemon is gone the warden kills all its runs
// at once, and ends. So no run needs its daemon to end.
//
// If the warden is gone, killed, stopped or stuck, the daemon kills its runs, and starts another
// warden. Each of those runs has [Lost]. It is gone if its connection is broken, if it makes no room
// there for a second, or does not answer for one.
//
// # What it makes of the daemon
//
// The daemon becomes a child subreaper (PR_SET_CHILD_SUBREAPER in prctl(2)), so that the runs of a
// warden that died come to it. It then waits for every child that came to it from others, also as PID 1
// of a container; never for one of its own, which it knows by the pidfd that package os has of each.
// On kernels without those (before Linux 5.4) it waits only for children that were runs'. A program that
// starts processes by other means than package os, and waits for them itself, should not have a Warden.
// Among those that came are strays of wardens that were lost, which show no sign of their run. So when there
// were such wardens Close kills all that came, and what is below them.
//
// The program must call [IsWarden] first thing in main. A Warden is safe for concurrent use.
type Warden struct {
	log     *slog.Logger // never blocks: it is late's
	late    *lateLog
	asides  asides
	cgroups *cgroups // nil: there are none, and
	without error    // says why
	closing chan struct{}
	close   sync.Once
	work    sync.WaitGroup // supervise, wait, burials

	knowsOwn bool // which children are of its own making
	lost     bool // there was a warden that was lost; the supervisor's, and Close's after it

	mu       sync.Mutex
	link     *link         // nil while there is no warden
	changed  chan struct{} // closed when link changes
	farewell error         // what Close returns
}

// The errors of a start without a warden.
var (
	errWardenClosed = errors.New("the warden is closed")
	errNoWarden     = errors.New("there is no warden, see the log")
)

// StartWarden starts the warden and waits until it serves. It also marks every descriptor above 2 that
// this process holds as close-on-exec. Those that Go opened are; those that the daemon was started with
// may not be, and must not reach a job.
//
// The error says what this machine lacks: /proc, a process that could be forked, a right; or that main does
// not ask [IsWarden]. Cgroups are not among that.
func StartWarden(opt WardenOptions) (*Warden, error) {
	if os.Getenv(wardenVariable) != "" {
		return nil, errors.New("jobs: this process was started as a warden; main has to ask jobs.IsWarden first")
	}
	markInherited()
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if !opt.Cgroups {
		return newWarden(opt.Logger, nil, errCgroupsOff)
	}
	c, why := openCgroups(opt.Logger)
	return newWarden(opt.Logger, c, why)
}

// newWarden starts the first warden, and what goes on from then on. The cgroups become the Warden's;
// nil: there are none, and why says the reason.
func newWarden(log *slog.Logger, c *cgroups, why error) (*Warden, error) {
	w := &Warden{cgroups: c, without: why, closing: make(chan struct{}), changed: make(chan struct{})}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("jobs: become a subreaper: %w", err), w.closeCgroups())
	}
	w.late, w.log = newLateLog(log)
	l, err := w.launch()
	if err != nil {
		w.late.close()
		return nil, errors.Join(fmt.Errorf("jobs: start the warden: %w", err), w.closeCgroups())
	}
	w.link = l
	w.warnOfHiding()
	// Without pidfds a child may be anybody's.
	if own, err := ownChildren(); err == nil && own[l.proc.Pid] {
		w.knowsOwn = true
		died := make(chan os.Signal, 1)
		signal.Notify(died, unix.SIGCHLD)
		w.work.Go(func() {
			defer signal.Stop(died)
			w.reap(died)
		})
	}
	w.work.Go(func() { w.supervise(l) })
	return w, nil
}

// Close ends the warden, which kills what it still has, and waits until it has ended. A Command that
// uses it then fails to start. The runs that were left have [Lost]. If wardens were lost before, Close kills
// what came to this process from them and from its own children alike, see above. It returns nil, or says
// that not all could be killed. Idempotent.
func (w *Warden) Close() error {
	w.close.Do(func() {
		close(w.closing)
		w.work.Wait()
		w.part(w.closeCgroups())
		w.part(w.endStrays())
		w.late.close()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.farewell
}

// part keeps what there is to be said about the end of a warden.
func (w *Warden) part(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.farewell = errors.Join(w.farewell, err)
}

// PID is the process id of the warden, 0 while there is none: for logs, and for whoever looks at what it
// uses.
func (w *Warden) PID() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.link == nil {
		return 0
	}
	return w.link.proc.Pid
}

// supervise has one warden after the other.
func (w *Warden) supervise(l *link) {
	pause := relaunchMin
	for {
		began := time.Now()
		select {
		case <-w.closing:
			w.part(w.dismiss(l))
			return
		case <-l.broken:
		}
		w.set(nil)
		w.lost = true
		running := l.running()
		lost := l
		w.work.Go(func() { w.part(w.bury(lost)) })
		w.log.Error("warden lost", "err", l.why, "running", running,
			"effect", "its runs are killed and recorded as lost, another warden is started")
		if time.Since(began) > relaunchMax {
			pause = relaunchMin
		}
		if l = w.relaunch(&pause); l == nil {
			return
		}
		w.log.Info("warden started", "pid", l.proc.Pid)
		w.set(l)
	}
}

// relaunch starts the next warden, sooner or later. It returns nil once the Warden is closed.
func (w *Warden) relaunch(pause *time.Duration) *link {
	var said time.Time
	var fault string
	for {
		timer := time.NewTimer(*pause)
		select {
		case <-timer.C:
		case <-w.closing:
			timer.Stop()
			return nil
		}
		*pause = min(2**pause, relaunchMax)
		l, err := w.launch()
		if err == nil {
			return l
		}
		if text := err.Error(); text != fault || time.Since(said) >= remind {
			fault, said = text, time.Now()
			w.log.Error("warden not started", "err", err, "effect", "no command can be run; it is tried again every "+relaunchMax.String())
		}
	}
}

// set says which warden there is.
func (w *Warden) set(l *link) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = l
	close(w.changed)
	w.changed = make(chan struct{})
}

// current returns the warden that there is, and waits a little if there is none. The error is
// errNotStarted if the run ended while it waited.
func (w *Warden) current(ctx context.Context, kill <-chan struct{}) (*link, error) {
	timer := time.NewTimer(linkPatience)
	defer timer.Stop()
	for {
		w.mu.Lock()
		l, changed := w.link, w.changed
		w.mu.Unlock()
		select {
		case <-w.closing:
			return nil, errWardenClosed
		default:
		}
		if l != nil && !l.isBroken() {
			return l, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, errNoWarden
		case <-ctx.Done():
			return nil, errNotStarted
		case <-kill:
			return nil, errNotStarted
		case <-w.closing:
		}
	}
}

// start has the warden start a run, and returns at once. The files, see startMessage, stay the caller's;
// they are open until the ward has begun, or is over.
func (w *Warden) start(ctx context.Context, kill <-chan struct{}, s *spec, files []*os.File, m startMessage) (*ward, error) {
	for {
		l, err := w.current(ctx, kill)
		if err != nil {
			return nil, err
		}
		if wd, err := l.start(s, files, m); !errors.Is(err, errBroken) {
			return wd, err
		}
		// It broke before the start was sent, so the next warden may have it.
	}
}
