package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"rota/internal/config"
	"rota/internal/connect"
	"rota/scheduler"
	"rota/scheduler/ledger"
)

// The bounds of [Options]. The shortest demo has room for a kill and a takeover.
const (
	LeastFor   = 5 * time.Second
	MostFor    = time.Hour
	LeastHosts = 2
	MostHosts  = 9
)

// Options of [Run].
type Options struct {
	Exe  string   // the program that is a daemon when it is run with Args and "-c FILE"; required
	Args []string // for rota itself: "run"

	For   time.Duration // how long the hosts race; LeastFor … MostFor
	Hosts int           // LeastHosts … MostHosts

	Dir     string           // where the temporary folder is made; "": where the system has those
	View    io.Writer        // gets the live view; required. If it fails, the demo ends early
	Style   Style            // of the view
	Signals <-chan os.Signal // the first ends the demo early, the second at once; nil: none

	up time.Duration // how long the hosts may take to come up; 0: upWithin. For tests
}

func (o *Options) check() error {
	var faults []error
	if o.Exe == "" {
		faults = append(faults, errors.New("demo: Exe is empty"))
	}
	if o.View == nil {
		faults = append(faults, errors.New("demo: View is nil"))
	}
	if o.For < LeastFor || o.For > MostFor {
		faults = append(faults, fmt.Errorf("demo: For is %s, want %s to %s", o.For, LeastFor, MostFor))
	}
	if o.Hosts < LeastHosts || o.Hosts > MostHosts {
		faults = append(faults, fmt.Errorf("demo: Hosts is %d, want %d to %d", o.Hosts, LeastHosts, MostHosts))
	}
	return errors.Join(faults...)
}

// The demo's patience. None of it is used up on a machine that is well.
const (
	upWithin     = 10 * time.Second
	settleWithin = 5 * time.Second
	drainWithin  = 15 * time.Second // above shutdown.drain
	aMoment      = 300 * time.Millisecond
	killAfter    = 300 * time.Millisecond // below slowTime
	pulse        = 40 * time.Millisecond
)

// Run shows the demo and returns its verdict, which may be one of faults. It is for one call at a
// time and process.
//
// The error says that there is no verdict: wrong options, a host that was not up within 10 s
// (with the end of its log), the end of ctx or a signal before all were up, a temporary folder
// that cannot be written, a ledger that cannot be read. When ctx ends, or at the first of
// opt.Signals, the demo ends early, and the verdict is about what there was.
func Run(ctx context.Context, opt Options) (*Verdict, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	runtime.LockOSThread() // see startHost
	defer runtime.UnlockOSThread()
	v, err := show(ctx, &opt)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return v, nil
}

func show(ctx context.Context, opt *Options) (_ *Verdict, err error) {
	names := hostNames(opt.Hosts)
	d := &demo{
		opt: opt, queue: newQueue(), board: newBoard(names, jobNames()),
		view:   &view{hosts: names, style: opt.Style},
		screen: &screen{w: opt.View, live: opt.Style.Live},
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	// The end of ctx is a wish like a signal: what is under way is still brought to its end.
	defer context.AfterFunc(ctx, func() { d.queue.put(message{asked: true}) })()
	return d.run(context.WithoutCancel(ctx))
}

// demo is one run of it. All of it belongs to the goroutine of [Run].
type demo struct {
	opt     *Options
	dir     string
	configs []string
	redis   *connect.Embedded
	table   []scheduler.Job
	ledger  *ledger.Ledger
	closers []func() error // in the order in which they were opened

	hosts  []*host
	queue  *queue
	others sync.WaitGroup // the goroutines that fill the queue

	board  *board
	view   *view
	screen *screen

	early bool // somebody asked for the end
	hurry bool // and then again

	stop   time.Time // when the race ends, by our clock
	slow   int       // ticks of the slow job that were won
	target *aim
	killed *host
	hit    time.Time // the tick whose run it had
	notice []string  // of the kill, while it is to be shown
	seen   *remains  // of the killed host
}

// aim is the host that is to be killed, unless its run ends before.
type aim struct {
	host  string
	tick  time.Time
	token int64
	at    time.Time
}

// prepare makes what the hosts need: a folder, their Redis and their configs.
func (d *demo) prepare(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp(d.opt.Dir, "rota-demo-"); err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { return os.RemoveAll(d.dir) })
	if d.redis, err = connect.ServeEmbedded(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { d.redis.Close(); return nil })
	keep := int(d.opt.For/time.Second) + 100
	d.configs, err = writeConfigs(d.dir, d.redis.Addr().String(), d.view.hosts, d.witness(), keep)
	if err != nil {
		return err
	}
	c, err := config.Load(d.configs[0])
	if err != nil {
		return err
	}
	client, err := connect.Open(c)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, client.Close)
	d.table = c.Table(ctx, nil) // for its schedules: nothing is run here
	d.ledger, err = ledger.New(client, ledger.Options{Namespace: c.Namespace, Keep: c.History.Keep})
	return err
}

// witness is the file to which every run writes.
func (d *demo) witness() string { return filepath.Join(d.dir, "witness") }

// close leaves nothing behind, however the demo went.
func (d *demo) close() error {
	d.screen.show("")
	for _, h := range d.hosts {
		h.signal(syscall.SIGKILL)
	}
	d.others.Wait()
	if d.dir != "" {
		for _, p := range runsUnder(d.dir) {
			p.kill()
		}
	}
	var errs []error
	for _, undo := range slices.Backward(d.closers) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// run is the demo from its first line to its verdict.
func (d *demo) run(ctx context.Context) (*Verdict, error) {
	d.screen.print(d.view.header(d.opt.For)...)
	d.screen.show(" the hosts start")
	for i, name := range d.view.hosts {
		h, err := startHost(ctx, d.opt, name, d.configs[i], d.queue, &d.others)
		if err != nil {
			return nil, err
		}
		d.hosts = append(d.hosts, h)
	}
	if err := d.awaitHosts(ctx); err != nil {
		return nil, err
	}
	from, err := d.now(ctx)
	if err != nil {
		return nil, err
	}
	d.board.from = from
	d.stop = time.Now().Add(d.opt.For)
	d.pump(ctx, d.opt.For, func() bool { return d.early || d.fallen() != nil })

	until, err := d.now(ctx)
	if err != nil {
		return nil, err
	}
	d.board.until, d.stop, d.target = until, time.Time{}, nil
	due := dueTicks(d.table, from, until)
	d.settle(ctx, due)
	ends := d.drain(ctx)
	entries, err := readLedger(ctx, d.ledger, jobNames())
	if err != nil {
		return nil, err
	}
	witness, illegible, err := readWitness(d.witness())
	if err != nil {
		return nil, err
	}
	e := evidence{
		hosts: len(d.hosts), jobs: jobNames(), from: from, until: until, early: d.early,
		due: due, entries: entries, witness: witness, illegible: illegible,
		leftOver: d.leftOver(), ends: ends,
	}
	if d.killed != nil {
		e.killed = d.killed.name
	}
	return judge(e), nil
}

// now is Redis' clock.
func (d *demo) now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, now, err := d.ledger.Cursors(ctx, jobNames())
	return now, err
}
