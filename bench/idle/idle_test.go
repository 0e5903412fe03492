//go:build linux

package idle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rota/bench/server"
	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// idling is what a daemon costs that has nothing to do.
type idling struct {
	started    time.Duration // until its table was in force
	all, own   float64       // resident memory in MiB
	beats      float64       // heartbeats a second
	beyond     float64       // commands a second that it sent besides
	names      string        // which ones they were
	called     float64       // commands a second that Redis counts, those called by scripts too
	redisTime  time.Duration // of Redis a second
	goroutines int
}

// look runs a daemon with so many jobs, lets it settle, and counts for a while what it sends.
func look(tb testing.TB, bin string, jobs int, settle, count time.Duration) idling {
	tb.Helper()
	s := redistest.Server(tb)
	d := start(tb, bin, s, jobs)
	c := server.Client(tb, s.Addr())
	time.Sleep(settle)
	out := idling{started: d.started}
	out.all, out.own = d.memory()

	sent := s.Monitor()
	before := server.Read(tb, c)
	time.Sleep(count)
	did := server.Read(tb, c).Since(before)
	names := map[string]int{}
	for _, cmd := range sent.Commands() {
		if !cmd.Lua && !cmd.Is("info") && !cmd.Is("echo") {
			names[strings.ToLower(cmd.Args[0])]++
		}
	}
	seconds := count.Seconds()
	for name, stat := range did {
		if name == "info" || name == "monitor" || name == "echo" || strings.HasPrefix(name, "client") || name == "hello" {
			continue // ours
		}
		out.called += float64(stat.Calls) / seconds
		if name == "evalsha" || names[name] > 0 { // a script's time has that of its commands in it
			out.redisTime += time.Duration(float64(stat.Time) / seconds)
		}
	}
	// One EVALSHA every two seconds is the heartbeat; a second one would not be.
	beats := min(names["evalsha"], int(count/ledger.BeatEvery)+1)
	out.beats = float64(beats) / seconds
	names["evalsha"] -= beats
	for name, n := range names {
		if n > 0 {
			out.beyond += float64(n) / seconds
			out.names += fmt.Sprintf(" %s×%d", name, n)
		}
	}
	out.goroutines = d.goroutines()
	return out
}

// A daemon with 1,000 jobs stays small and leaves Redis alone. The bounds are those that are
// promised; what a daemon really takes is in the benchmark.
func TestDaemon_IdleStaysSmall(t *testing.T) {
	got := look(t, build(t), 1000, 4*time.Second, 8*time.Second)
	t.Logf("%.1f MiB, %.2f heartbeats and %.2f other commands a second (%s), %d goroutines",
		got.all, got.beats, got.beyond, got.names, got.goroutines)
	if got.all >= 30 {
		t.Errorf("resident memory with 1,000 jobs: %.1f MiB, want under 30", got.all)
	}
	if got.beats == 0 {
		t.Error("no heartbeat was seen: nothing was measured")
	}
	if got.beyond >= 1 {
		t.Errorf("commands beyond the heartbeat: %.2f a second (%s), want under 1", got.beyond, got.names)
	}
	if got.goroutines == 0 || got.goroutines > 25 {
		t.Errorf("goroutines of an idle daemon: %d, want 1 to 25, whatever the table", got.goroutines)
	}
}

func TestField_ReadsKibibytes(t *testing.T) {
	status := []byte("Name:\trota\nVmRSS:\t   21400 kB\nRssAnon:\t     900 kB\n")
	for name, want := range map[string]float64{"VmRSS": 21400, "RssAnon": 900, "VmSwap": 0} {
		if got := field(status, name); got != want {
			t.Errorf("field(%s) = %g, want %g", name, got, want)
		}
	}
}

func TestCountGoroutines_LeavesOutTheRuntimes(t *testing.T) {
	const dump = "{\"msg\":\"daemon started\"}\nSIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n\n" +
		"goroutine 0 gp=0x1 m=0 [idle]:\nruntime.mcall()\n\n" +
		"goroutine 1 gp=0x2 m=nil [select]:\nmain.main()\n\n" +
		"goroutine 3 gp=0x3 m=nil [GC sweep wait]:\nruntime.gopark()\ncreated by runtime.gcenable in goroutine 1\n\n" +
		"goroutine 20 gp=0x4 m=nil [select]:\nscheduler.heart()\ncreated by sync.(*WaitGroup).Go in goroutine 1\n\n" +
		"rax 0x0\n"
	if got := countGoroutines(dump); got != 2 {
		t.Errorf("countGoroutines = %d, want 2: the main one and the heart", got)
	}
}

func BenchmarkDaemon(b *testing.B) {
	bin := build(b)
	for _, jobs := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(jobs, " jobs"), func(b *testing.B) {
			for b.Loop() {
				got := look(b, bin, jobs, 10*time.Second, 20*time.Second)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(got.started.Milliseconds()), "ms-start")
				b.ReportMetric(got.all, "MiB-rss")
				b.ReportMetric(got.own, "MiB-anon")
				b.ReportMetric(got.beats, "beats/s")
				b.ReportMetric(got.beyond, "commands/s-beyond")
				b.ReportMetric(got.called, "commands/s-with-scripts")
				b.ReportMetric(float64(got.redisTime.Microseconds()), "µs-redis/s")
				b.ReportMetric(float64(got.goroutines), "goroutines")
				if got.names != "" {
					b.Log("beyond the heartbeat:" + got.names)
				}
			}
		})
	}
}
