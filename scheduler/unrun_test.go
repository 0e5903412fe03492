package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"rota/jobs"
	"rota/scheduler/ledger"
)

func TestCountTicks_IsBounded(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return from.Add(time.Duration(s) * time.Second) }
	j := job(t, "j", "* * * * * *", jobs.Func(nil))
	for name, c := range map[string]struct {
		until int
		want  ledger.Ticks
	}{
		"none":                   {0, ledger.Ticks{}},
		"some":                   {10, ledger.Ticks{N: 10, First: at(1), Last: at(10)}},
		"as many as are counted": {maxGap, ledger.Ticks{N: maxGap, First: at(1), Last: at(maxGap)}},
		"one more":               {maxGap + 1, ledger.Ticks{N: maxGap, More: true, First: at(1), Last: at(maxGap + 1)}},
		"of half a year":         {180 * 86400, ledger.Ticks{N: maxGap, More: true, First: at(1), Last: at(180 * 86400)}},
	} {
		if got := countTicks(&j)(from, at(c.until)); got != c.want {
			t.Errorf("%s: countTicks() = %+v, want %+v", name, got, c.want)
		}
	}
}

// Ticks that nobody ran are told of by the host that recorded them, once, and by no other.
func TestUnrun_IsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		j := job(t, "j", "* * * * *", f.handler(time.Second))
		h := f.start("h0", nil, j)
		time.Sleep(90 * time.Second)
		h.stop()
		<-h.ended
		time.Sleep(10 * time.Minute)
		log := &logBuffer{}
		for _, name := range []string{"h1", "h2", "h3"} {
			f.start(name, log.into, j)
		}
		time.Sleep(2 * time.Minute)
		if n := log.count("ticks were not run"); n != 1 {
			t.Errorf("%d lines tell of the ticks that were not run, want 1", n)
		}
	})
}
