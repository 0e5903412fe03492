//go:build linux

package jobs

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// poorVariable takes from a warden what not every kernel has: "lists" of children, "marks".
const poorVariable = "JOBS_TEST_WITHOUT"

// servePoorly is ServeWarden without something.
func servePoorly(without string) int {
	s, err := newServer(wardenSocket, inheritedCgroups())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch without {
	case "lists":
		s.orphans.tree.threads = false
	case "marks":
		// What it announced stays as it is: the daemon then finds none of them, as it should.
		s.orphans.marks, s.spawner.marks = marks{}, marks{}
	}
	if !s.serve() {
		return 1
	}
	return 0
}

// pidsIn reads the process ids that a run's processes wrote, a line each.
func pidsIn(t *testing.T, file string) (pids []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// However a process leaves its group, its session, its parents and its environment: it ends with its
// run. Each writes its pid before it settles down.
func TestWarden_FindsWhatLeft(t *testing.T) {
	for _, without := range []string{"", "lists", "marks", "a way out of a cgroup"} {
		t.Run("without "+without, func(t *testing.T) {
			t.Setenv(poorVariable, without)
			w := warden
			if without == "a way out of a cgroup" {
				w = confinedWarden(t, os.Stderr)
			} else {
				w = startWarden(t)
			}
			for _, c := range []struct{ name, script string }{
				{"a session of its own", "setsid $STAY &"},
				{"a group of its own", "set -m; $STAY &"},
				{"an orphan", "( $STAY & )"},
				{"a daemon", "( setsid sh -c '( $STAY & )' & )"},
				{"a daemon's children", "( setsid sh -c '$STAY & $STAY & wait' & )"},
				{"a lost environment", "( env -i setsid $STAY & until [ -s $PIDS ]; do sleep 0.01; done )"},
				{"a lost mark", "( prlimit --locks=unlimited:unlimited setsid $STAY & until [ -s $PIDS ]; do sleep 0.01; done )"},
				{"stopped", "( setsid sh -c 'echo $$ >>$PIDS; kill -STOP $$' & )"},
			} {
				if without == "marks" && c.name == "a lost environment" {
					continue // nothing shows whose it is: TestWarden_TellsOfStrays
				}
				t.Run(c.name, func(t *testing.T) {
					run, _ := testRun(t)
					dir := t.TempDir()
					pids := filepath.Join(dir, "pids")
					stay := filepath.Join(dir, "stay")
					// It names what it needs: it may have no environment.
					text := fmt.Sprintf("#!/bin/sh\ntrap '' TERM\necho $$ >>%s\nexec sleep 300\n", pids)
					if err := os.WriteFile(stay, []byte(text), 0o700); err != nil {
						t.Fatal(err)
					}
					script := strings.NewReplacer("$STAY", stay, "$PIDS", pids).Replace(c.script) +
						"\nuntil [ -s " + pids + " ]; do sleep 0.01; done; sleep 0.1; exit 3"
					cmd := command(Shell(script)...)
					cmd.Warden, cmd.KillGrace = w, 100*time.Millisecond
					check(t, c.script, cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
					for _, pid := range pidsIn(t, pids) {
						if !ended(pid) {
							t.Errorf("process %d lives", pid)
							_ = unix.Kill(pid, unix.SIGKILL)
						}
					}
				})
			}
		})
	}
}

// What was seen below its run's main process needs no other sign, also when it has become an orphan.
func TestWarden_RemembersWhatItSaw(t *testing.T) {
	run, _ := testRun(t)
	told := ready(&run)
	pids := filepath.Join(t.TempDir(), "pids")
	cmd := command(Shell("env -i setsid prlimit --locks=unlimited:unlimited sh -c 'trap : TERM; echo $$ >>" + pids + "; while :; do sleep 0.01; done' &\n" +
		"until [ -s " + pids + " ]; do sleep 0.01; done; echo ready; wait")...)
	cmd.KillGrace = 500 * time.Millisecond
	got := cmd.Run(endsWith(t, ErrTimedOut, told), run)
	check(t, "a child without a sign", got, TimedOut, 143, words(ErrTimedOut)+killedToo)
	if pid := pidsIn(t, pids)[0]; !ended(pid) {
		t.Errorf("process %d lives", pid)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// What shows no sign of its run at all is told of, and lives no longer than the warden.
func TestWarden_TellsOfStrays(t *testing.T) {
	var log journal
	w, err := StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	run, _ := testRun(t)
	pids := filepath.Join(t.TempDir(), "pids")
	// Its parent leaves it when it has lost both signs, and not before.
	cmd := command(Shell("(env -i setsid prlimit --locks=unlimited:unlimited sh -c 'echo $$ >>" + pids + "; exec sleep 300' & " +
		"until [ -s " + pids + " ]; do sleep 0.01; done); sleep 0.2")...)
	cmd.Warden = w
	check(t, "a stray", cmd.Run(t.Context(), run), Succeeded, 0, "")
	stray := pidsIn(t, pids)[0]
	eventually(t, "the stray is told of", func() bool {
		return strings.Contains(log.String(), fmt.Sprintf(`msg="process escaped its run" pid=%d name=s`, stray)) // sh, or sleep
	})
	if ended(stray) {
		t.Error("the stray is dead: it might have been another run's")
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if !ended(stray) {
		t.Error("the stray lives on after Close")
		_ = unix.Kill(stray, unix.SIGKILL)
	}
}

// Processes that fork away from one another while they are ended, in many runs at a time: none is left.
func TestWarden_NoneEscapes(t *testing.T) {
	const runs, each = 600, 4
	var log journal
	w, err := StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	dir := t.TempDir()
	// Each generation starts the next one in a session of its own, and ends: there is always one that
	// lives, and never for long. It takes no SIGTERM.
	chain := filepath.Join(dir, "chain")
	text := "#!/bin/sh\ntrap '' TERM\nsetsid " + chain + " $(($1 + 1)) &\n[ $1 -lt 200 ] || sleep 300\n"
	if err := os.WriteFile(chain, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	scripts := []string{
		"i=0; while [ $i -lt 4 ]; do (setsid sh -c '(sleep 300 &) ; (setsid sleep 300 &) ; sleep 300' &) ; i=$((i+1)); done; exit 3",
		"trap '(setsid sleep 300 &)' TERM; (setsid sh -c 'trap \"(setsid sleep 300 &); exit\" TERM; while :; do sleep 0.01; done' &) ; exit 3",
		chain + " 0; exit 3",
	}
	var workers sync.WaitGroup
	ids := make([]string, runs)
	for worker := range each {
		workers.Go(func() {
			for i := worker; i < runs; i += each {
				run, _ := testRun(t)
				ids[i] = run.ID
				cmd := command(Shell(scripts[i%len(scripts)])...)
				cmd.Warden, cmd.KillGrace = w, 5*time.Millisecond
				check(t, scripts[i%len(scripts)], cmd.Run(t.Context(), run), Failed, 3, "exit code 3")
			}
		})
	}
	workers.Wait()
	escaped := 0
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, _ := os.ReadFile(file)
		for _, id := range ids {
			if bytes.Contains(env, []byte(runVariable+"="+id+"\x00")) || bytes.HasSuffix(env, []byte(runVariable+"="+id)) {
				escaped++
			}
		}
	}
	if left := tracesOf(t, w.PID()); escaped > 0 || left.children+left.zombies > 0 {
		t.Errorf("of %d runs %d processes live on, and the warden has %+v; want none", runs, escaped, left)
	}
	if log.String() != "" {
		t.Errorf("the log has\n%.2000s\nwant nothing: no run was over before the last of it was", &log)
	}
}
