//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// nobody is a user who is not root, whatever it is called here.
const nobody = 65534

// becomeNobody gives up root for good.
func becomeNobody() error {
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody),
		// Else what /proc has of this process is root's (PR_SET_DUMPABLE in prctl(2)).
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
}

// sleeperVariable names a program that becomes root's and stays for a while.
const sleeperVariable = "JOBS_TEST_SLEEPER"

// runHidden is a daemon that is not root, on a machine that shows nobody another one's processes. It has a
// run that leaves one of root's behind, and prints how it ends.
func runHidden() {
	err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
	if err = errors.Join(err, becomeNobody()); err != nil {
		fmt.Println(err)
		return
	}
	var log journal
	w, err := StartWarden(WardenOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		fmt.Println(err)
		return
	}
	run := func(script string) string {
		result := make(chan Result, 1)
		go func() {
			result <- in(w, Shell(script)...).Run(context.Background(), Run{ID: "R1"})
		}()
		select {
		case got := <-result:
			return fmt.Sprint(got.Outcome, " ", got.Reason)
		case <-time.After(5 * time.Second):
			return "goes on"
		}
	}
	// It is another user's before it is an orphan.
	fmt.Println("beside its group:", run("(setsid "+os.Getenv(sleeperVariable)+" 300 & sleep 0.3); exit 3"))
	fmt.Println("the next:", run("exit 4"))
	// What is in the group is the run's all the same, and is waited for: nobody here may end it.
	fmt.Println("in its group:", run("("+os.Getenv(sleeperVariable)+" 1 &) ; sleep 0.3; exit 5"))
	for range 100 {
		if strings.Contains(log.String(), "escaped") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for line := range strings.Lines(log.String()) {
		for _, key := range []string{"level=", "msg=", "reason="} {
			_, after, _ := strings.Cut(line, key)
			word, rest, _ := strings.Cut(after, " ")
			if strings.HasPrefix(word, `"`) && !strings.HasSuffix(word, `"`) {
				rest, _, _ = strings.Cut(rest, `"`)
				word += " " + rest + `"`
			}
			fmt.Print(word, " ")
		}
		fmt.Println()
	}
	unix.Exit(0) // as PID 1 it takes all with it
}

// A process that may not be looked at keeps no run from ending but the one that it is known to be of.
func TestWarden_HiddenProcesses(t *testing.T) {
	needRoot(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	sleeper := writeFile(t, "sleeper", string(program), os.ModeSetuid|0o755)
	if err := os.Chmod(filepath.Dir(filepath.Dir(sleeper)), 0o755); err != nil {
		t.Fatal(err)
	}
	daemon := play(t, "hidden", "")
	daemon.Env = append(daemon.Env, sleeperVariable+"="+sleeper)
	daemon.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Unshareflags: unix.CLONE_NEWNS}
	text, err := daemon.Output()
	if err != nil {
		t.Error(err)
	}
	want := `beside its group: failed exit code 3
the next: failed exit code 4
in its group: failed exit code 5
WARN "processes are hidden" "/proc is mounted with hidepid=invisible" 
WARN "process escaped its run" "/proc hides it from the daemon's user, and with it whose it is" 
`
	// Kernels before Linux 5.8 know it as a number.
	if got := strings.ReplaceAll(string(text), "hidepid=2", "hidepid=invisible"); got != want {
		t.Errorf("it printed\n%s\nwant\n%s", got, want)
	}
}

func TestHides(t *testing.T) {
	line := func(options string) string {
		return "21 28 0:19 / /sys rw - sysfs sysfs rw,hidepid=2\n22 28 0:20 / /proc rw,nosuid shared:5 master:1 - proc proc " + options + "\n"
	}
	for _, c := range []struct{ mounts, want string }{
		{"", ""},
		{line("rw"), ""},
		{line("rw,hidepid=0"), ""},
		{line("rw,hidepid=off"), ""},
		{line("rw,hidepid=2"), "hidepid=2"},
		{line("rw,gid=7,hidepid=noaccess"), "hidepid=noaccess"},
		{line("rw,gid=5,hidepid=ptraceable"), ""},
		{line("rw,hidepid=2") + line("rw"), ""},
		{line("rw") + line("rw,hidepid=1"), "hidepid=1"},
		{"22 28 0:20 / /proc\n", ""},
	} {
		if got := hides(c.mounts, []int{4, 5}); got != c.want {
			t.Errorf("hides(%q) = %q, want %q", c.mounts, got, c.want)
		}
	}
}

// beExhausted is a process that has no descriptor free, and what it then knows.
func beExhausted() {
	if os.Getuid() == 0 {
		if err := becomeNobody(); err != nil {
			fmt.Println(err)
			return
		}
	}
	m := newMarks()
	b, err := newBell()
	if err != nil {
		fmt.Println(err)
		return
	}
	o := newOrphans(m, b)
	_, _ = ownChildren() // what the runtime opens for a first file is open now
	buf := make([]byte, 4<<10)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		fmt.Println(err)
		return
	}
	limit := func(n uint64) {
		// Not by package syscall, which would have children keep the other one.
		if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}, nil); err != nil {
			fmt.Println(err)
		}
	}
	answers := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.answers)
	}
	limit(0)
	_, ok, err := m.of(1, &buf)
	fmt.Println("the mark of another user's process:", ok, exhausted(err))
	_, ok, err = m.of(os.Getpid(), &buf)
	fmt.Println("its own:", ok, err)
	_, err = ownChildren()
	fmt.Println("its children:", errors.Is(err, unix.EMFILE))
	go o.ask(process{pid: os.Getpid()})
	time.Sleep(3 * pollMax)
	fmt.Println("answers:", answers())
	limit(old.Cur)
	for range 1000 {
		if answers() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("then:", answers(), o.answers[0].env.runs)
}

// Nothing is concluded from what could not be read because this process had no descriptor for it.
func TestOrphans_ExhaustionIsNoAnswer(t *testing.T) {
	process := play(t, "exhausted", "")
	process.Env = append(process.Env, runVariable+"=R1")
	text, err := process.Output()
	if err != nil {
		t.Error(err)
	}
	want := `the mark of another user's process: false true
its own: true <nil>
its children: true
answers: 0
then: 1 [R1]
`
	if string(text) != want {
		t.Errorf("it printed\n%s\nwant\n%s", text, want)
	}
}
