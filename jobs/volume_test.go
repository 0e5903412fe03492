//go:build linux

package jobs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// memoryKiB reads a line of /proc/self/status, as VmRSS or VmHWM.
func memoryKiB(t *testing.T, name string) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte(name+":"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kib
}

// Case E07: endless output costs bounded memory, and what is left out is said.
func TestCommand_EndlessOutput(t *testing.T) {
	debug.FreeOSMemory()
	// 5 resets the peak (proc_pid_clear_refs(5)).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	before := memoryKiB(t, "VmRSS")
	run, _ := testRun(t)
	out := NewOutput(16 << 10)
	lines := 0
	log := NewLines(func(string, bool) { lines++ })
	run.Output = io.MultiWriter(out, log)
	got := command(Shell("yes 01234567890123456789012345678901234567890123456789 | head -c 200000000")...).
		Run(t.Context(), run)
	_ = log.Close()
	check(t, "yes", got, Succeeded, 0, "")
	if out.Total() != 200_000_000 || lines != 200_000_000/51+1 {
		t.Errorf("%d bytes in %d lines, want 200000000 in %d", out.Total(), lines, 200_000_000/51+1)
	}
	if want := "[... 199983616 bytes left out ...]\n"; !strings.Contains(out.String(), want) {
		t.Errorf("output without %q", want)
	}
	if grown := memoryKiB(t, "VmHWM") - before; grown > 64<<10 {
		t.Errorf("memory grew by %d KiB, want at most 64 MiB", grown)
	}
}

// Case E23: two runs print at once into one log, and no line is mixed.
func TestLines_OfTwoRuns(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{} // by run and line
	var runs sync.WaitGroup
	for _, job := range []string{"a", "b"} {
		run, _ := testRun(t)
		lines := NewLines(func(line string, continued bool) {
			mu.Lock()
			defer mu.Unlock()
			if continued {
				t.Errorf("job %s: a line in pieces", job)
			}
			seen[job+" "+line]++
		})
		run.Output = lines
		script := fmt.Sprintf("yes %s | head -n 10000", strings.Repeat(job, 200))
		runs.Go(func() {
			check(t, script, command(Shell(script)...).Run(t.Context(), run), Succeeded, 0, "")
			_ = lines.Close()
		})
	}
	runs.Wait()
	for _, job := range []string{"a", "b"} {
		if line := job + " " + strings.Repeat(job, 200); seen[line] != 10000 {
			t.Errorf("job %s: %d whole lines, want 10000", job, seen[line])
		}
	}
	if len(seen) != 2 {
		t.Errorf("%d different lines, want 2", len(seen))
	}
}

// The bytes of both streams arrive in the order in which they were written.
func TestCommand_StreamsInOrder(t *testing.T) {
	run, out := testRun(t)
	check(t, "echo", command(Shell("echo a; echo b >&2; echo c; echo d >&2")...).Run(t.Context(), run), Succeeded, 0, "")
	if want := "a\nb\nc\nd\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out, want)
	}
}
