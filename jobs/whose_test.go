//go:build linux

package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// going is a run that prints the pids of its processes and goes on until the test ends.
type going struct {
	id   string
	pids map[string]int
	end  func()
}

// goOn starts a run of a script that prints lines of "name pid", one for each of the names.
func goOn(t *testing.T, user, script string, names ...string) *going {
	t.Helper()
	return goOnIn(t, warden, user, script, names...)
}

func goOnIn(t *testing.T, w *Warden, user, script string, names ...string) *going {
	t.Helper()
	run, out := testRun(t)
	cmd := command(Shell(script + "\nwait\nsleep 300")...)
	cmd.Warden, cmd.User = w, user
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	go func() { done <- cmd.Run(ctx, run) }()
	ended := false
	g := &going{id: run.ID, pids: map[string]int{}}
	g.end = func() {
		if !ended {
			ended = true
			cancel()
			<-done
		}
	}
	t.Cleanup(g.end)
	eventually(t, "the run is set up", func() bool { return strings.Count(out.String(), "\n") == len(names) })
	for _, name := range names {
		_, after, _ := strings.Cut("\n"+out.String(), "\n"+name+" ")
		digits, _, _ := strings.Cut(after, "\n")
		pid, err := strconv.Atoi(digits)
		if err != nil {
			t.Fatalf("the run printed %q, want a pid for %s", out, name)
		}
		g.pids[name] = pid
	}
	return g
}

// A script whose processes are related to its main process in every way there is.
const relatives = `
echo main $$
sleep 300 & echo child $!
sh -c 'sleep 300 & echo grandchild $!; wait' &
setsid sh -c 'echo session $$; sleep 300' &
sh -c 'sleep 300 & echo orphan $!'
sh -c 'setsid sh -c "echo orphaned_session \$\$; sleep 300" &'
env -i sleep 300 & echo bare $!`

func TestWarden_RunOf(t *testing.T) {
	one := goOn(t, "", relatives, "main", "child", "grandchild", "session", "orphan", "orphaned_session", "bare")
	two := goOn(t, "", "echo main $$; sleep 300 & echo child $!", "main", "child")
	for _, orphan := range []string{"orphan", "orphaned_session"} {
		eventually(t, orphan+" has come to the warden", func() bool {
			stat, err := readStat(one.pids[orphan], new(make([]byte, 4<<10)))
			return err == nil && stat.parent == warden.PID()
		})
	}
	for name, pid := range one.pids {
		if got := warden.RunOf(pid); got != one.id {
			t.Errorf("RunOf(%s, %d) = %q, want %q", name, pid, got, one.id)
		}
	}
	for name, pid := range two.pids {
		if got := warden.RunOf(pid); got != two.id {
			t.Errorf("RunOf(%s of another run) = %q, want %q", name, got, two.id)
		}
	}
	gone := two.pids["child"]
	two.end()
	for name, pid := range map[string]int{
		"nobody": 0, "a negative pid": -1, "init": 1, "this process": os.Getpid(), "its parent": os.Getppid(),
		"the warden": warden.PID(), "no process": 1 << 22, "one of a run that has ended": gone,
	} {
		if got := warden.RunOf(pid); got != "" {
			t.Errorf("RunOf(%s) = %q, want none", name, got)
		}
	}
}

// What a process says of itself does not make it a run's: neither what it has in its environment, nor its
// mark. And a run's process stays its run's, whatever group it joins.
func TestWarden_RunOfForgers(t *testing.T) {
	one := goOn(t, "", "echo main $$", "main")
	forger := exec.CommandContext(t.Context(), "sleep", "300")
	forger.Env = append(os.Environ(), "ROTA_RUN="+one.id)
	if err := forger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = forger.Process.Kill()
		_ = forger.Wait()
	}()
	setMark(t, forger.Process.Pid, markOf(t, one.pids["main"]))
	if got := warden.RunOf(forger.Process.Pid); got != "" {
		t.Errorf("RunOf(a stranger with a run's mark and ROTA_RUN) = %q, want none", got)
	}

	two := goOn(t, "", "echo main $$; sleep 300 & echo child $!", "main", "child")
	for name, pid := range two.pids {
		setMark(t, pid, markOf(t, one.pids["main"]))
		if got := warden.RunOf(pid); got != two.id {
			t.Errorf("RunOf(a %s with the mark of another run) = %q, want that of its parents, %q", name, got, two.id)
		}
	}
}

// An orphan that claims to be another user's run is believed by nobody.
func TestWarden_RunOfOrphansOfOthers(t *testing.T) {
	needRoot(t)
	victim := goOn(t, "", "echo main $$", "main")
	mark := markOf(t, victim.pids["main"])
	forger := goOn(t, "nobody", fmt.Sprintf(`
sh -c 'sleep 300 & echo honest $!'
sh -c 'prlimit --locks=%d: sleep 300 & echo forged $!'`, mark), "honest", "forged")
	for name, pid := range forger.pids {
		eventually(t, name+" has come to the warden", func() bool {
			stat, err := readStat(pid, new(make([]byte, 4<<10)))
			return err == nil && stat.parent == warden.PID()
		})
	}
	eventually(t, "the mark is forged", func() bool { return markOf(t, forger.pids["forged"]) == mark })
	if got := warden.RunOf(forger.pids["honest"]); got != forger.id {
		t.Errorf("RunOf(an orphan) = %q, want its run's, %q", got, forger.id)
	}
	if got := warden.RunOf(forger.pids["forged"]); got != "" {
		t.Errorf("RunOf(an orphan with the mark of another user's run) = %q, want none", got)
	}
}

// Where runs have cgroups no sign is needed.
func TestWarden_RunOfOrphansInCgroups(t *testing.T) {
	const script = `sh -c "env -i setsid prlimit --locks=unlimited:unlimited sleep 300 & echo orphan \$!"; sleep 300 &`
	for name, tc := range map[string]struct {
		w    *Warden
		runs bool
	}{"with cgroups": {confinedWarden(t, os.Stderr), true}, "without": {warden, false}} {
		t.Run(name, func(t *testing.T) {
			other := goOnIn(t, tc.w, "", "echo main $$", "main")
			one := goOnIn(t, tc.w, "", script, "orphan")
			orphan, want := one.pids["orphan"], ""
			t.Cleanup(func() { _ = unix.Kill(orphan, unix.SIGKILL) }) // without a sign nobody else does
			if tc.runs {
				want = one.id
			}
			eventually(t, "it shows no sign", func() bool {
				stat, err := readStat(orphan, new(make([]byte, 4<<10)))
				_, marked := tc.w.link.marks.of(orphan, new(make([]byte, 4<<10)))
				return err == nil && stat.parent == tc.w.PID() && stat.group == orphan && !marked
			})
			if got := tc.w.RunOf(orphan); got != want {
				t.Errorf("RunOf(an orphan without a sign) = %q, want %q", got, want)
			}
			if got := tc.w.RunOf(other.pids["main"]); got != other.id {
				t.Errorf("RunOf(the main process of another run) = %q, want %q", got, other.id)
			}
		})
	}
}

func markOf(t *testing.T, pid int) uint64 {
	t.Helper()
	m := marks{base: warden.link.marks.base}
	id, ok := m.of(pid, new(make([]byte, 4<<10)))
	if !ok {
		return 0
	}
	return m.base | uint64(id)
}

func setMark(t *testing.T, pid int, mark uint64) {
	t.Helper()
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit)
	if limit.Cur = mark; err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &limit, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}
