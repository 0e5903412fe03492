package outcomes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"rota/internal/outcomes"
	"rota/internal/redistest"
	"rota/jobs"
	"rota/scheduler"
	"rota/scheduler/ledger"
	"rota/scheduler/schedule"
)

// fleet is an in-bubble Redis, what stands between it and the hosts, and their state folder.
type fleet struct {
	*testing.T
	redis *miniredis.Miniredis
	proxy *redistest.FaultProxy
	led   *ledger.Ledger // past the proxy
	gone  atomic.Bool    // connections are refused
	dir   string
	log   *logBuffer
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	m, c := redistest.InBubble(t)
	led, err := ledger.New(c, ledger.Options{Namespace: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{
		T: t, redis: m, proxy: redistest.PipeProxy(t, m.Dial), led: led,
		dir: filepath.Join(t.TempDir(), "outcomes"), log: &logBuffer{},
	}
}

// daemon is one host on the folder; stop drains it.
type daemon struct {
	stop  func()
	ended chan struct{}
}

func (f *fleet) start(name string, table ...scheduler.Job) *daemon {
	f.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:0", ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 100,
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return f.dial() }, //nolint:contextcheck // a pipe is dialed at once
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	led, err := ledger.New(c, ledger.Options{Namespace: "t"})
	if err != nil {
		f.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(f.log, nil)).With("on", name)
	s, err := scheduler.New(scheduler.Options{
		Ledger: led, Jobs: table, Table: name, Namespace: "t", Host: name,
		TTL: 12 * time.Second, RenewEvery: 3 * time.Second, LossGrace: time.Second, OpTimeout: time.Second,
		Drain: time.Minute, Boottime: func() time.Duration { return 0 }, Logger: log,
		Outcomes: outcomes.Open(outcomes.Options{Dir: f.dir, Namespace: "t", Logger: log}),
	})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &daemon{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		_ = s.Run(ctx)
	}()
	f.Cleanup(func() {
		cancel()
		s.Kill()
		<-d.ended
		_ = c.Close()
	})
	return d
}

func (f *fleet) dial() (net.Conn, error) {
	if f.gone.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return f.proxy.Dial()
}

// cut takes Redis away, as if its process had ended.
func (f *fleet) cut() {
	f.gone.Store(true)
	f.proxy.Cut()
}

func (f *fleet) heal() {
	f.proxy.Heal()
	f.gone.Store(false)
}

// end drains a daemon and returns how long that took.
func (d *daemon) end() time.Duration {
	begun := time.Now()
	d.stop()
	<-d.ended
	return time.Since(begun)
}

// job prints its name, goes on for d and fails if it is told so.
func job(t *testing.T, name, spec string, d time.Duration, err error) scheduler.Job {
	t.Helper()
	s, e := schedule.Parse("UTC", spec)
	if e != nil {
		t.Fatal(e)
	}
	h := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		_, _ = io.WriteString(run.Output, name+" says\x00\xff\n")
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return scheduler.Job{Name: name, Schedule: s, Handler: h, Definition: "d", ScheduleHash: "s"}
}

// history is what the ledger has of a job's runs, oldest first: outcome and reason.
func (f *fleet) history(job string) (said []string, entries []ledger.Entry) {
	f.Helper()
	entries, err := f.led.History(context.Background(), ledger.Query{Jobs: []string{job}})
	if err != nil {
		f.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e ledger.Entry) bool { return e.Run == "" })
	slices.Reverse(entries)
	for _, e := range entries {
		said = append(said, strings.TrimSpace(e.Outcome+" "+e.Reason))
	}
	return said, entries
}

// ends are the runs of a job that Redis has an end of by their own hosts, as they were appended.
func (f *fleet) ends(job string) []string {
	f.Helper()
	all, err := f.redis.Stream("{t}:job:" + job + ":runs")
	if err != nil {
		f.Fatal(err)
	}
	var runs []string
	for _, e := range all {
		if slices.Contains(e.Values, "attempt") && slices.Contains(e.Values, "end") {
			runs = append(runs, e.Values[slices.Index(e.Values, "run")+1])
		}
	}
	return runs
}

// kept is how many outcomes are on disk.
func (f *fleet) kept() int {
	f.Helper()
	found, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Fatal(err)
	}
	return len(found)
}

// finishes picks the ends of runs: no other script is told an outcome.
func finishes(args []string) bool {
	return len(args) > 0 && strings.EqualFold(args[0], "evalsha") &&
		(slices.Contains(args, "succeeded") || slices.Contains(args, "failed") || slices.Contains(args, "lost"))
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func toTheMinute() { time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) }

// outage starts a daemon, and cuts it off from Redis in the second in which three runs begin. They end
// as they would, but for the third, which its lease does not last for.
func outage(f *fleet) *daemon {
	f.Helper()
	d := f.start(
		"h0", job(f.T, "quick", "0 * * * *", 2*time.Second, nil),
		job(f.T, "bad", "0 * * * *", 5*time.Second, errors.New("no good")),
		job(f.T, "long", "0 * * * *", time.Hour, nil),
	)
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) + time.Second)
	f.cut()
	return d
}

// checkOutage holds that each of the three runs has its own end in the ledger, once and late.
func checkOutage(f *fleet) {
	f.Helper()
	for job, want := range map[string]string{
		"quick": "succeeded reported late",
		"bad":   "failed no good (reported late)",
		"long":  "lost lease lost:",
	} {
		said, entries := f.history(job)
		if len(said) == 0 || !strings.HasPrefix(said[0], want) || !strings.HasSuffix(strings.TrimSuffix(said[0], ")"), "reported late") {
			f.Errorf("%s: history is %q, want it to begin with %q, reported late", job, said, want)
			continue
		}
		if e := entries[0]; e.Host != "h0" || e.Ended.Sub(e.Won) > 12*time.Second {
			f.Errorf("%s: the run of %s ended %s after it was won, want h0's own words of the time", job, e.Host, e.Ended.Sub(e.Won))
		}
		if out, err := f.led.Output(context.Background(), entries[0].Run); string(out) != job+" says\x00\xff\n" || err != nil {
			f.Errorf("%s: Output() = %q, %v, want what the job wrote", job, out, err)
		}
		if ends := f.ends(job); len(ends) == 0 || slices.Contains(ends[1:], ends[0]) || ends[0] != entries[0].Run {
			f.Errorf("%s: the ends in the ledger are of %q, want one of the first run", job, ends)
		}
	}
	if n := f.kept(); n != 0 {
		f.Errorf("%d files are left, want none once redis has taken them", n)
	}
}

// Redis is away for an hour, as three runs end.
func TestOutage_AnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		outage(f)
		time.Sleep(time.Minute)
		if n := f.kept(); n != 3 {
			t.Errorf("%d outcomes are on disk a minute into the outage, want 3", n)
		}
		time.Sleep(58*time.Minute + 50*time.Second)
		f.heal()
		time.Sleep(5 * time.Second)
		checkOutage(f)
		if k, d := f.log.count(`msg="outcome kept"`), f.log.count(`msg="outcome delivered"`); k != 3 || d != 3 {
			t.Errorf("the log says %d kept and %d delivered, want 3 of each:\n%s", k, d, f.log)
		}
		for _, late := range []string{"outcome=succeeded after=59m", "outcome=failed after=59m", "outcome=lost after=59m"} {
			if f.log.count(late) != 1 {
				t.Errorf("the log does not say %q:\n%s", late, f.log)
			}
		}
		time.Sleep(time.Hour) // what ends from now on costs no file
		if f.log.count(`msg="outcome kept"`) != 3 || len(f.ends("quick")) < 2 {
			t.Errorf("the runs after the outage: %q ended, log\n%s", f.ends("quick"), f.log)
		}
	})
}

// The daemon is stopped under the outage, which takes no longer than its calls may; so is the next one.
// A third, under another name, with none of the jobs, delivers.
func TestOutage_OverTwoRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		d := outage(f)
		time.Sleep(10 * time.Minute)
		if took := d.end(); took > 6*time.Second {
			t.Errorf("the daemon took %s to stop, want about 3 s: its outcomes are on disk", took)
		}
		if f.log.count(`msg="outcomes left undelivered" on=h0 count=3`) != 1 || f.log.count("outcome not recorded") != 0 {
			t.Errorf("the log does not say that 3 outcomes are left:\n%s", f.log)
		}
		time.Sleep(10 * time.Minute)
		d = f.start("h1")
		time.Sleep(10 * time.Minute)
		if took := d.end(); took > 6*time.Second {
			t.Errorf("a daemon that never saw redis took %s to stop", took)
		}
		f.start("h2")
		time.Sleep(10 * time.Minute)
		f.heal()
		time.Sleep(5 * time.Second)
		checkOutage(f)
		if n := f.log.count(`msg="outcome delivered" on=h2`); n != 3 {
			t.Errorf("the log says %d delivered, want 3:\n%s", n, f.log)
		}
	})
}

// Redis is back while the daemon stops, before its calls have had their time: nothing is left.
func TestOutage_OverWhileTheDaemonStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		d := outage(f)
		time.Sleep(time.Minute)
		time.AfterFunc(1500*time.Millisecond, f.heal)
		d.end()
		checkOutage(f)
		if f.log.count("outcomes left undelivered") != 0 {
			t.Errorf("the log says that outcomes are left:\n%s", f.log)
		}
	})
}

// Redis takes everything but ends, for ten minutes and over a restart: the lease of each run ends by
// itself, others call it lost, the next tick is won. Then the ends arrive, each once, in their order,
// and the newest of all last, whichever daemon had them.
func TestOutage_InOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", time.Second, nil)
		d := f.start("h0", j)
		toTheMinute()
		f.proxy.Reject(-1, finishes, "LOADING Redis is loading the dataset in memory")
		time.Sleep(5*time.Minute + 20*time.Second)
		d.end()
		f.start("h1", j)
		time.Sleep(5 * time.Minute)
		if n := f.kept(); n != 11 {
			t.Fatalf("%d outcomes are kept, want 11:\n%s", n, f.log)
		}
		tried := f.proxy.Count(finishes)
		f.proxy.Heal()
		time.Sleep(10 * time.Second)
		said, entries := f.history("j")
		var runs []string
		for i, e := range entries {
			runs = append(runs, e.Run)
			if want := "succeeded reported late"; said[i] != want {
				t.Errorf("run %d is %q, want %q", i, said[i], want)
			}
		}
		if ends := f.ends("j"); len(runs) != 11 || !slices.Equal(ends, runs) {
			t.Errorf("ends are of\n%q\nwant one each, in the order of the runs\n%q", ends, runs)
		}
		if n := f.proxy.Count(finishes) - tried; n != 11 {
			t.Errorf("%d ends were sent once redis took them, want 11", n)
		}
		if n := f.kept(); n != 0 {
			t.Errorf("%d files are left, want none", n)
		}
	})
}

// Redis answers, and refuses the outcome of one run, for a foreign value is where it would go: the
// outcomes behind it do not wait, and it is delivered when somebody has acted.
func TestOutage_RefusedStepsAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", time.Second, nil)
		d := f.start("h0", j)
		toTheMinute()
		f.proxy.Reject(-1, finishes, "LOADING Redis is loading the dataset in memory")
		time.Sleep(90 * time.Second) // two runs
		d.end()
		_, entries := f.history("j")
		key := "{t}:run:" + entries[0].Run
		f.redis.Del(key)
		if err := f.redis.Set(key, "x"); err != nil {
			t.Fatal(err)
		}
		f.proxy.Heal()
		f.start("h1", j)
		time.Sleep(3 * time.Minute)
		said, entries := f.history("j")
		if len(said) < 4 || strings.HasPrefix(said[0], "succeeded") || said[1] != "succeeded reported late" || said[3] != "succeeded" {
			t.Errorf("history is %q, want all but the first delivered", said)
		}
		if n := f.log.count("outcome refused by redis"); n != 1 || !strings.Contains(f.log.String(), key) || f.kept() != 1 {
			t.Errorf("%d lines say that an outcome is refused, %d are kept, want 1 of each:\n%s", n, f.kept(), f.log)
		}
		f.redis.Del(key)
		time.Sleep(10 * time.Second)
		if said, again := f.history("j"); said[0] != "succeeded reported late" || again[0].Run != entries[0].Run || f.kept() != 0 {
			t.Errorf("history is %q, %d are kept, want the first delivered too", said, f.kept())
		}
	})
}

// The folder cannot be written: one line says so, and the outcomes are delivered from memory. One that
// can be written again takes them while they wait.
func TestOutage_FolderThatFails(t *testing.T) {
	for _, mended := range []bool{false, true} {
		t.Run(fmt.Sprintf("mended %t", mended), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				if err := os.WriteFile(f.dir, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				outage(f)
				time.Sleep(2 * time.Minute)
				if n := f.log.count(`msg="outcome not kept"`); n != 1 || f.log.count("msg=\"outcome kept") != 0 {
					t.Errorf("%d lines say that outcomes are not kept, want 1:\n%s", n, f.log)
				}
				if err := os.Remove(f.dir); err != nil {
					t.Fatal(err)
				}
				if mended {
					time.Sleep(2 * time.Minute)
					if n := f.kept(); n != 3 {
						t.Errorf("%d outcomes are on disk two minutes later, want 3", n)
					}
				}
				f.heal()
				time.Sleep(5 * time.Second)
				checkOutage(f)
			})
		})
	}
}

// Four hundred runs end as Redis hangs: all are on disk long before as many calls could have failed,
// and the daemon stops at once when it is told to.
func TestOutage_ManyEndAsRedisHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 400
		f := newFleet(t)
		var table []scheduler.Job
		for i := range n {
			table = append(table, job(t, fmt.Sprintf("j%03d", i), "0 * * * *", 3*time.Second, nil))
		}
		d := f.start("h0", table...)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)) + 2*time.Second)
		f.proxy.DelayRequests(-1, redistest.Named("evalsha"), time.Hour)
		time.Sleep(9 * time.Second) // a call hangs for a second, and 16 do at a time
		if got := f.kept(); got != n {
			t.Errorf("%d outcomes are on disk 8 s after the runs ended, want %d", got, n)
		}
		time.Sleep(10 * time.Second)
		if took := d.end(); took > 6*time.Second {
			t.Errorf("the daemon took %s to stop, want about 3 s and a call", took)
		}
		f.proxy.Heal()
		f.start("h1")
		time.Sleep(5 * time.Second)
		succeeded := 0
		for i := range n {
			if said, _ := f.history(fmt.Sprintf("j%03d", i)); len(said) == 1 && strings.HasPrefix(said[0], "succeeded") {
				succeeded++
			}
		}
		if succeeded != n || f.kept() != 0 {
			t.Errorf("%d of %d are in the ledger, %d still on disk", succeeded, n, f.kept())
		}
	})
}

// silent takes what go-redis says of connections that it cannot open.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}
