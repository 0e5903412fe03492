//go:build linux

package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A blockedLog takes nothing until it is freed.
type blockedLog struct {
	slog.Handler
	free chan struct{}
}

func newBlockedLog(to *journal) *blockedLog {
	return &blockedLog{slog.NewTextHandler(to, nil), make(chan struct{})}
}

func (b *blockedLog) Handle(ctx context.Context, r slog.Record) error {
	<-b.free
	return b.Handler.Handle(ctx, r)
}

func (b *blockedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &blockedLog{b.Handler.WithAttrs(attrs), b.free}
}

// Whatever there is to be logged, runs end and others start while the log takes nothing.
func TestWarden_BlockedLog(t *testing.T) {
	var written journal
	log := newBlockedLog(&written)
	w, err := StartWarden(WardenOptions{Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	ended := func(what string, c Command, run Run) Result {
		result := make(chan Result, 1)
		go func() { result <- c.Run(t.Context(), run) }()
		select {
		case got := <-result:
			return got
		case <-time.After(20 * time.Second):
			t.Fatalf("%s goes on after 20s", what)
			return Result{}
		}
	}
	// A stray is told of.
	run, _ := testRun(t)
	pids := filepath.Join(t.TempDir(), "pids")
	leaves := "(env -i setsid prlimit --locks=unlimited:unlimited sh -c 'echo $$ >>" + pids + "; exec sleep 300' & " +
		"until [ -s " + pids + " ]; do sleep 0.01; done); sleep 0.2"
	check(t, "a run that leaves a stray", ended("a run that leaves a stray", in(w, Shell(leaves)...), run), Succeeded, 0, "")
	// The warden answers as before, and is heard.
	time.Sleep(pingEvery + answerPatience)
	first := w.PID()
	run, _ = testRun(t)
	check(t, "the next", ended("the next", in(w, "true"), run), Succeeded, 0, "")
	if w.PID() != first || first == 0 {
		t.Error("the warden was taken for lost")
	}
	// And its loss is no less than without a log.
	run, _ = testRun(t)
	told := ready(&run)
	go func() {
		<-told
		_ = unix.Kill(first, unix.SIGKILL)
	}()
	got := ended("a run that loses its warden", in(w, Shell(deaf)...), run)
	check(t, "a run that loses its warden", got, Lost, -1, "the warden was lost: it has ended; every process of the run was killed")
	wantNone(t, run.ID)
	run, _ = testRun(t)
	check(t, "one after that", ended("one after that", in(w, "true"), run), Succeeded, 0, "")

	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("Close() = %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Close goes on after 20s")
	}
	close(log.free)
	eventually(t, "everything is written in the end", func() bool {
		text := written.String()
		return strings.Contains(text, "process escaped its run") && strings.Contains(text, "warden lost")
	})
}

// Records come in order and whole, with what their loggers have; those that do not fit are counted.
func TestLateLog(t *testing.T) {
	var written journal
	blocked := newBlockedLog(&written)
	late, log := newLateLog(slog.New(blocked))
	const more = 10
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := range lateRecords + 1 + more {
			log.With("run", "r").Info("said", "count", i)
		}
	})
	writers.Wait()
	log.Debug("not said")
	close(blocked.free)
	late.close()
	lines := strings.Split(strings.TrimSpace(written.String()), "\n")
	last := lines[len(lines)-1]
	if kept := len(lines) - 1; kept < lateRecords || kept > lateRecords+1 {
		t.Errorf("%d records were kept, want %d", kept, lateRecords)
	}
	if want := fmt.Sprintf(`level=WARN msg="log records left out" count=%d`, lateRecords+1+more-(len(lines)-1)); !strings.Contains(last, want) {
		t.Errorf("the last line is %q, want %q", last, want)
	}
	for i, line := range lines[:len(lines)-1] {
		if want := fmt.Sprintf("msg=said run=r count=%d", i); !strings.HasSuffix(line, want) {
			t.Errorf("line %d is %q, want %q", i, line, want)
		}
	}
	log.Info("nobody is there") // and nothing happens
}
