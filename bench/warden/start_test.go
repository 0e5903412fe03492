//go:build linux

package warden

import (
	"bytes"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"rota/bench/sample"
	"rota/jobs"
)

const rounds = 1000 // some seconds

func TestMain(m *testing.M) {
	if jobs.IsWarden() {
		os.Exit(jobs.ServeWarden())
	}
	os.Exit(m.Run())
}

// lines are the ways to run /bin/true that are compared. Each returns how long it took until exec was
// done, and until the program had ended.
type lines struct {
	tb       testing.TB
	env      []string
	null     *os.File
	warden   *jobs.Warden
	confined *jobs.Warden // that gives each run a cgroup
}

func newLines(tb testing.TB) *lines {
	tb.Helper()
	enter(tb, delegate(tb))
	confined, err := jobs.StartWarden(jobs.WardenOptions{Cgroups: true, Logger: mustHaveCgroups(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	w, err := jobs.StartWarden(jobs.WardenOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		null.Close()
		if err := errors.Join(w.Close(), confined.Close()); err != nil {
			tb.Error(err)
		}
	})
	return &lines{
		tb: tb, env: append(jobs.BaseEnv(nil, "", nil), "LEVEL=9"), null: null,
		warden: w, confined: confined,
	}
}

// mustHaveCgroups is a log in which nothing may be amiss: a run without a cgroup would be measured as one
// that has it.
func mustHaveCgroups(tb testing.TB) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(writerFunc(func(line []byte) (int, error) {
		if !bytes.Contains(line, []byte("runs get cgroups")) {
			tb.Errorf("%s", line)
		}
		return len(line), nil
	}), nil))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// bare is a fork and exec, and nothing else.
func (l *lines) bare() (start, all time.Duration) {
	began := time.Now()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{
		Dir: "/", Env: l.env, Files: []*os.File{l.null, l.null, l.null}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	start = time.Since(began)
	if err != nil {
		l.tb.Fatal(err)
	}
	if state, err := p.Wait(); err != nil || !state.Success() {
		l.tb.Fatal(state, err)
	}
	return start, time.Since(began)
}

// run is a run as the scheduler has them: with an id, with output that is kept, with deadlines.
func (l *lines) run(w *jobs.Warden) (start, all time.Duration) {
	began := time.Now()
	deadlines := new(jobs.Deadlines)
	got := jobs.Command{Args: []string{"/bin/true"}, Env: l.env, Warden: w, KillGrace: time.Second}.Run(l.tb.Context(), jobs.Run{
		Job: "report", ID: rand.Text(), Output: jobs.NewOutput(16 << 10), Deadlines: deadlines,
	})
	if got.Outcome != jobs.Succeeded {
		l.tb.Fatal(got)
	}
	return got.Started.Sub(began), got.Ended.Sub(began)
}

// A run's start through the warden against a bare fork and exec of the same program, and the whole of
// it, until everything is gone. x-cgroup is the same with a cgroup for each run, x-here a start without a
// warden. It needs root, for the cgroups.
func BenchmarkStart(b *testing.B) {
	l := newLines(b)
	side := func(do func() (start, all time.Duration), whole *[]time.Duration) sample.Side {
		return func() time.Duration {
			start, all := do()
			*whole = append(*whole, all)
			return start
		}
	}
	for b.Loop() {
		var bareAll, wardenAll, confinedAll, hereAll []time.Duration
		t := sample.Interleave(rounds,
			side(l.bare, &bareAll),
			side(func() (start, all time.Duration) { return l.run(l.warden) }, &wardenAll),
			side(func() (start, all time.Duration) { return l.run(nil) }, &hereAll),
			side(func() (start, all time.Duration) { return l.run(l.confined) }, &confinedAll))
		sample.Compare(t[1], t[0]).Report(b, "x-bare")
		sample.Compare(t[3], t[0]).Report(b, "x-cgroup")
		b.ReportMetric(sample.Compare(confinedAll, bareAll).Of, "x-whole-cgroup")
		b.ReportMetric(sample.Compare(t[2], t[0]).Of, "x-here")
		b.ReportMetric(sample.Compare(wardenAll, bareAll).Of, "x-whole")
		b.ReportMetric(sample.Compare(hereAll, bareAll).Of, "x-whole-here")
		b.ReportMetric(sample.Micros(sample.Median(t[0])), "µs-bare")
		b.ReportMetric(sample.Micros(sample.Median(t[1])), "µs-start")
		b.ReportMetric(sample.Micros(sample.Median(t[3])), "µs-cgroup")
		b.ReportMetric(sample.Micros(sample.Median(wardenAll)), "µs-whole")
	}
}
