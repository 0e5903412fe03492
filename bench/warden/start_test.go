//go:build linux

package warden

import (
	"crypto/rand"
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
	tb     testing.TB
	env    []string
	null   *os.File
	warden *jobs.Warden
}

func newLines(tb testing.TB) *lines {
	tb.Helper()
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
		if err := w.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &lines{tb: tb, env: append(jobs.BaseEnv(nil, "", nil), "LEVEL=9"), null: null, warden: w}
}

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
// it, until everything is gone. x-here is a start without a warden.
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
		var bareAll, wardenAll, hereAll []time.Duration
		t := sample.Interleave(rounds,
			side(l.bare, &bareAll),
			side(func() (start, all time.Duration) { return l.run(l.warden) }, &wardenAll),
			side(func() (start, all time.Duration) { return l.run(nil) }, &hereAll))
		sample.Compare(t[1], t[0]).Report(b, "x-bare")
		b.ReportMetric(sample.Compare(t[2], t[0]).Of, "x-here")
		b.ReportMetric(sample.Compare(wardenAll, bareAll).Of, "x-whole")
		b.ReportMetric(sample.Compare(hereAll, bareAll).Of, "x-whole-here")
		b.ReportMetric(sample.Micros(sample.Median(t[0])), "µs-bare")
		b.ReportMetric(sample.Micros(sample.Median(t[1])), "µs-start")
		b.ReportMetric(sample.Micros(sample.Median(wardenAll)), "µs-whole")
	}
}
