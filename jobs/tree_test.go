//go:build linux

package jobs

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// grandchild starts a shell that has a child, and returns both.
func grandchild(t *testing.T, setup string) (parent *exec.Cmd, child int) {
	t.Helper()
	parent = exec.CommandContext(t.Context(), "/bin/sh", "-c", setup+" sleep 300 & echo $!; wait")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(child, unix.SIGKILL)
		_ = parent.Process.Kill()
		_ = parent.Wait()
	})
	if _, err := fmt.Fscanln(out, &child); err != nil {
		t.Fatal(err)
	}
	return parent, child
}

// With the kernel's lists of children and without them a tree reads the same.
func TestTree_Reads(t *testing.T) {
	parent, child := grandchild(t, "")
	lists := newTree()
	self := strconv.Itoa(os.Getpid())
	if _, err := os.Stat("/proc/self/task/" + self + "/children"); (err == nil) != lists.threads {
		t.Errorf("a tree reads the kernel's lists: %v; they are there: %v", lists.threads, err)
	}
	for name, tr := range map[string]*tree{"lists": lists, "parents": {buf: make([]byte, 16)}} {
		got, err := tr.children(parent.Process.Pid)
		if err != nil || !slices.Equal(got, []int{child}) {
			t.Errorf("%s: children(%d) = %v, %v, want %d", name, parent.Process.Pid, got, err, child)
		}
		got, err = tr.children(os.Getpid())
		if err != nil || !slices.Contains(got, parent.Process.Pid) {
			t.Errorf("%s: children of this process: %v, %v, want %d among them", name, got, err, parent.Process.Pid)
		}
		got, err = tr.children(1 << 22)
		if err != nil || len(got) > 0 {
			t.Errorf("%s: children of nobody: %v, %v, want none", name, got, err)
		}
		var below []int
		tr.below(os.Getpid(), func(p process, _ procStat) { below = append(below, p.pid) })
		if at, under := slices.Index(below, parent.Process.Pid), slices.Index(below, child); at < 0 || under < at {
			t.Errorf("%s: below this process: %v, want %d and after it %d", name, below, parent.Process.Pid, child)
		}
	}
}

func TestTree_SignalsNobodyElse(t *testing.T) {
	tr := newTree()
	_, child := grandchild(t, "")
	stat, err := readStat(child, &tr.buf)
	if err != nil {
		t.Fatal(err)
	}
	tr.signal(process{child, stat.start - 1}, killSignals)
	if now, err := readStat(child, &tr.buf); err != nil || now.dead() {
		t.Error("it was signalled under the number of a process that started earlier")
	}
	tr.signal(process{child, stat.start}, killSignals)
	eventually(t, "it is signalled by its own", func() bool { return ended(child) })
}

func TestReadStat_OfThisProcess(t *testing.T) {
	got, err := readStat(os.Getpid(), new(make([]byte, 16)))
	if err != nil {
		t.Fatal(err)
	}
	if got.parent != os.Getppid() || got.group != unix.Getpgrp() || got.threads < 2 || got.start == 0 || got.dead() || !got.hasEnv {
		t.Errorf("readStat(this process) = %+v, want parent %d, group %d, some threads, not dead",
			got, os.Getppid(), unix.Getpgrp())
	}
}

// A mark stays with what a process becomes and forks, whatever it does to its environment.
func TestMarks_AreInherited(t *testing.T) {
	m := newMarks()
	if m.base == 0 {
		t.Fatal("there are no marks on this machine")
	}
	if err := m.set(4711); err != nil {
		t.Fatal(err)
	}
	_, child := grandchild(t, "exec env -i setsid /bin/sh -c 'sleep 300 & echo $!; wait' #")
	if err := m.set(4712); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if run, ok, _ := m.of(child, &buf); !ok || run != 4711 {
		t.Errorf("the mark of a grandchild is %d, %v, want 4711", run, ok)
	}
	if run, ok, _ := m.of(os.Getpid(), &buf); !ok || run != 4712 {
		t.Errorf("the mark of this process is %d, %v, want 4712", run, ok)
	}
	other := marks{base: m.base ^ 1<<40, hard: m.hard}
	if run, ok, _ := other.of(child, &buf); ok {
		t.Errorf("another warden takes the mark for its own, of run %d", run)
	}
	if run, ok, _ := m.of(1, &buf); ok {
		t.Errorf("PID 1 has the mark of run %d", run)
	}
	if run, ok, _ := (marks{}).of(child, &buf); ok {
		t.Errorf("without marks there is one of run %d", run)
	}
	if err := (marks{base: 1 << 33, hard: 1}).set(1); err == nil {
		t.Error("a mark above the hard limit was set")
	}
}

// Package os holds what it started; what came from elsewhere it does not.
func TestOwnChildren_AreHeld(t *testing.T) {
	parent, child := grandchild(t, "")
	own, err := ownChildren()
	if err != nil || !own[parent.Process.Pid] || own[child] || own[1] {
		t.Errorf("ownChildren() = %v, want %d and not %d", own, parent.Process.Pid, child)
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	if own, err = ownChildren(); err != nil || own[parent.Process.Pid] {
		t.Error("a process that was waited for is held still")
	}
}

// Orphans come to a process that has a warden, and it waits for them, and for nobody else's children.
func TestWarden_ReapsWhatComes(t *testing.T) {
	for range 20 {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "(sleep 0.05 &) ; echo $$; exit 7")
		text, err := cmd.Output()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 || strings.TrimSpace(string(text)) != fmt.Sprint(cmd.Process.Pid) {
			t.Fatalf("a child of this process ended with %v, want 7", err)
		}
	}
	late := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 7")
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphans are reaped", func() bool {
		tr := tracesOf(t, os.Getpid())
		return tr.zombies == 1
	})
	if err := late.Wait(); late.ProcessState == nil || late.ProcessState.ExitCode() != 7 {
		t.Errorf("a child that was waited for late ended with %v, want 7", err)
	}
}
