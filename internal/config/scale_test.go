package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// manyFaults is a table of n jobs with a fault in each.
func manyFaults(n int, job string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(job, "N", fmt.Sprintf("j%04d", i)))
	}
	return b.String()
}

// Ten times the jobs take about ten times the time, also if all of them are at fault: a file that
// some program wrote wrong is refused before whoever waits gives up.
func TestLoad_TimeGrowsWithTheTable(t *testing.T) {
	info, err := os.Stat("testdata/good/empty.toml")
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string, want int) time.Duration {
		t.Helper()
		best := time.Hour
		for range 3 { // the machine may have other things to do
			start := time.Now()
			_, err := newLoader(plain()).build("rota.toml", []byte(text), info)
			best = min(best, time.Since(start))
			if faults, ok := errors.AsType[*Faults](err); !ok || len(faults.All) != want {
				t.Fatalf("build = %.200v, want %d faults", err, want)
			}
		}
		return best
	}
	for name, job := range map[string]string{
		"an unknown key":       "[jobs.N]\nschedule = \"0 2 * * *\"\nshell = \"true\"\ntimout = \"5s\"\n",
		"a schedule too few":   "[jobs.N]\nshell = \"true\"\n",
		"a key swallowed":      "[jobs.N]\nschedule = \"0 2 * * *\"\nshell = \"true\"\n[jobs.N.env]\ntimeout = \"5s\"\n",
		"a table with no line": "jobs.N.shell = \"true\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			// What grows with the square takes a hundred times as long, however often it is tried.
			var few, many time.Duration
			ratio := 100.0
			for try := 0; try < 10 && ratio > 40; try++ {
				few, many = load(manyFaults(200, job), 200), load(manyFaults(2000, job), 2000)
				ratio = float64(many) / float64(few)
			}
			if ratio > 40 {
				t.Errorf("2000 faults take %s, 200 take %s: %.0f times as long, want about 10 times", many, few, ratio)
			}
		})
	}
}

func BenchmarkLoad_FaultInEachOf5000Jobs(b *testing.B) {
	info, err := os.Stat("testdata/good/empty.toml")
	if err != nil {
		b.Fatal(err)
	}
	text := []byte(manyFaults(5000, "[jobs.N]\nschedule = \"0 2 * * *\"\nshell = \"true\"\ntimout = \"5s\"\n"))
	for b.Loop() {
		if _, err := newLoader(plain()).build("rota.toml", text, info); err == nil {
			b.Fatal("build = nil, want the faults")
		}
	}
}
