//go:build linux

package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// traces is what runs could leave behind in a process.
type traces struct {
	descriptors, goroutines, children, zombies int
	heapBytes                                  uint64
}

func tracesOf(t *testing.T, pid int) (tr traces) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	tr.descriptors = len(fds)
	tree := newTree()
	children, err := tree.children(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		stat, err := readStat(child, &tree.buf)
		switch {
		case err != nil:
		case stat.dead():
			tr.zombies++
		default:
			tr.children++
		}
	}
	if pid == os.Getpid() {
		runtime.GC()
		runtime.GC() // what has a finalizer goes with the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		tr.heapBytes, tr.goroutines = m.HeapAlloc, runtime.NumGoroutine()
	}
	return tr
}

// 10,000 runs leave no zombie, no descriptor, no goroutine and no memory behind, neither here nor in
// the warden. Some of them leave processes, some cannot be started, some print.
func TestWarden_TenThousandRuns(t *testing.T) {
	t.Run("without cgroups", func(t *testing.T) { leaveNoTraces(t, startWarden(t), 10_000) })
	t.Run("in cgroups", func(t *testing.T) {
		w := confinedWarden(t, os.Stderr)
		leaveNoTraces(t, w, 2_000)
		if left, err := w.cgroups.dir.children(); len(left) > 0 || err != nil {
			t.Errorf("cgroups of runs that are over: %v, %v; want none", left, err)
		}
	})
}

func leaveNoTraces(t *testing.T, w *Warden, runs int) {
	t.Helper()
	scripts := []string{"exit 3", "setsid sleep 300 & exit 3", "(sleep 300 &) ; exit 3", "echo hello; exit 3"}
	round := func(n int) {
		var workers sync.WaitGroup
		for worker := range 4 {
			workers.Go(func() {
				for i := worker; i < n; i += 4 {
					run, _ := testRun(t)
					cmd, code := command("false"), 1
					switch {
					case i%100 == 0:
						cmd, code = command("/no/such"), -1
					case i%50 < len(scripts):
						cmd, code = command(Shell(scripts[i%50])...), 3
					case i%2 == 0:
						run.Output = nil
					}
					cmd.Warden = w
					got := cmd.Run(t.Context(), run)
					if got.Outcome != Failed || (got.ExitCode == nil) != (code < 0) || code >= 0 && *got.ExitCode != code {
						t.Errorf("run %d: %+v, want exit code %d", i, got, code)
					}
				}
			})
		}
		workers.Wait()
	}
	round(500) // what the runtimes open once
	here, there := tracesOf(t, os.Getpid()), tracesOf(t, w.PID())
	memory := rss(t, w.PID())
	round(runs)
	var nowHere, nowThere traces
	eventually(t, "nothing more is open than before", func() bool {
		nowHere, nowThere = tracesOf(t, os.Getpid()), tracesOf(t, w.PID())
		return nowHere.descriptors <= here.descriptors && nowHere.goroutines <= here.goroutines &&
			nowThere.descriptors <= there.descriptors
	})
	if nowThere.children+nowThere.zombies > 0 || nowHere.zombies > 0 {
		t.Errorf("children: of the warden %d live and %d are zombies, %d zombies here; want none",
			nowThere.children, nowThere.zombies, nowHere.zombies)
	}
	if nowHere.heapBytes > here.heapBytes+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", here.heapBytes, nowHere.heapBytes)
	}
	if now := rss(t, w.PID()); now > memory+memoryGrowth {
		t.Errorf("the warden's memory grew from %d to %d bytes", memory, now)
	}
	t.Logf("here %+v, then %+v; warden %+v, then %+v", here, nowHere, there, nowThere)
}

// startWarden starts a warden of the test's own, which is closed with it.
func startWarden(t *testing.T) *Warden {
	t.Helper()
	w, err := StartWarden(WardenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return w
}

// rss is a process' resident memory, in bytes.
func rss(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * unix.Getpagesize()
}
