//go:build linux

package jobs

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Case E10: what an exit means.
func TestCommand_ExitMeanings(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			name, script string
			success      []int
			outcome      Outcome
			code         int
			reason       string
		}{
			{"0 is success", "exit 0", nil, Succeeded, 0, ""},
			{"3 is a failure", "exit 3", nil, Failed, 3, "exit code 3"},
			{"255 is a failure", "exit 255", nil, Failed, 255, "exit code 255"},
			{"256 is 0", "exit 256", nil, Succeeded, 0, ""},
			{"a named code is success", "exit 3", []int{0, 3}, Succeeded, 3, ""},
			{"0 is a failure if not named", "exit 0", []int{3}, Failed, 0, "exit code 0"},
			{"a signal is a failure", "kill -TERM $$", nil, Failed, 143, "signal terminated (SIGTERM)"},
			{"a signal is no exit code", "kill -TERM $$", []int{143}, Failed, 143, "signal terminated (SIGTERM)"},
			{"out of memory looks like this", "kill -KILL $$", nil, Failed, 137, "signal killed (SIGKILL)"},
		} {
			t.Run(c.name, func(t *testing.T) {
				run, _ := testRun(t)
				cmd := command(Shell(c.script)...)
				cmd.SuccessCodes = c.success
				before := time.Now()
				got := cmd.Run(t.Context(), run)
				check(t, c.script, got, c.outcome, c.code, c.reason)
				if got.Started.Before(before) || got.Ended.Before(got.Started) || got.Ended.After(time.Now()) {
					t.Errorf("called %v: started %v, ended %v; want them in this order", before, got.Started, got.Ended)
				}
			})
		}
	})
}

// Case E21: no shell unless it is asked for.
func TestCommand_NoShell(t *testing.T) {
	run, out := testRun(t)
	got := command("printf", "%s|", "$HOME", "*", "a b", "; id", "`id`", "100%").Run(t.Context(), run)
	check(t, "printf", got, Succeeded, 0, "")
	if want := "$HOME|*|a b|; id|`id`|100%|"; out.String() != want {
		t.Errorf("printf printed %q, want %q", out, want)
	}
}

// Case E17: stdin ends at once.
func TestCommand_Stdin(t *testing.T) {
	run, out := testRun(t)
	check(t, "cat", command("cat").Run(t.Context(), run), Succeeded, 0, "")
	if out.Total() != 0 {
		t.Errorf("cat printed %q, want nothing", out)
	}
}

func TestCommand_Environment(t *testing.T) {
	t.Setenv("DAEMON_SECRET", "hunter2")
	run, out := testRun(t)
	run.Config, run.Socket = "/etc/rota/rota.toml", "/run/rota/run.sock"
	cmd := command("env")
	cmd.Env = append(cmd.Env, "ROTA_JOB=forged", "ROTA_SOCKET=/forged", "A=1", "A=2")
	check(t, "env", cmd.Run(t.Context(), run), Succeeded, 0, "")
	want := strings.Join([]string{
		"PATH=" + DefaultPath, "HOME=/", "SHELL=/bin/sh", "LANG=C.UTF-8", "TZ=UTC",
		"ROTA_JOB=backup", "ROTA_SOCKET=/run/rota/run.sock", "A=2",
		"ROTA_TICK=2026-11-29T02:00:00Z", "ROTA_RUN=" + run.ID, "ROTA_ATTEMPT=1",
		"ROTA_FENCING_TOKEN=1795968430725800", "ROTA_LOCK=backup", "ROTA_HOST=web-1",
		"ROTA_NAMESPACE=rota", "ROTA_CONFIG=/etc/rota/rota.toml",
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("env printed\n%s\nwant\n%s", out, want)
	}
}

func TestCommand_Dir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/here", []byte("#!/bin/sh\npwd\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, program, path, want string }{
		{"the root by default", "", "pwd", DefaultPath, "/\n"},
		{"the directory named", dir, "pwd", DefaultPath, dir + "\n"},
		{"a relative program is below it", dir, "./here", DefaultPath, dir + "\n"},
		{"a relative entry of PATH is below it", dir, "here", "/no/such:.", dir + "\n"},
		{"an empty entry of PATH is the directory", dir, "here", "/no/such:", dir + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, out := testRun(t)
			cmd := Command{Args: []string{c.program}, Dir: c.dir, Env: []string{"PATH=" + c.path}}
			check(t, c.program, cmd.Run(t.Context(), run), Succeeded, 0, "")
			if out.String() != c.want {
				t.Errorf("%s in %q with PATH %q printed %q, want %q", c.program, c.dir, c.path, out, c.want)
			}
		})
	}
	t.Run("the daemon's PATH does not count", func(t *testing.T) {
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		run, _ := testRun(t)
		check(t, "here", Command{Args: []string{"here"}}.Run(t.Context(), run), Failed, -1,
			`start "here": not found in PATH "`+DefaultPath+`"`)
	})
}

func TestCommand_CauseDecides(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			cause   error
			outcome Outcome
		}{
			{fmt.Errorf("%w after 200ms", ErrTimedOut), TimedOut},
			{ErrCancelled, Cancelled},
			{ErrInterrupted, Interrupted},
			{ErrLost, Lost},
			{context.Canceled, Interrupted},
		} {
			t.Run(string(c.outcome), func(t *testing.T) {
				run, _ := testRun(t)
				run.Kill = make(chan struct{})
				// It answers SIGTERM with success, and is believed only as to its code.
				cmd := command(Shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")...)
				got := cmd.Run(endsWith(t, c.cause, ready(&run)), run)
				check(t, "after "+c.cause.Error(), got, c.outcome, 0, words(c.cause))
				wantNone(t, run.ID)
			})
			t.Run(string(c.outcome)+" before it started", func(t *testing.T) {
				run, out := testRun(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(c.cause)
				got := command("echo", "started").Run(ctx, run)
				check(t, "after "+c.cause.Error(), got, c.outcome, -1, words(c.cause))
				if !got.Started.IsZero() || got.Ended.IsZero() || out.Total() != 0 {
					t.Errorf("started %v, ended %v, printed %q; want zero, a time, nothing", got.Started, got.Ended, out)
				}
			})
		}
	})
}

func TestCommand_KillAlone(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		t.Run("ends the run as lost", func(t *testing.T) {
			run, _ := testRun(t)
			run.Kill = ready(&run)
			got := command(Shell("echo ready; exec sleep 300")...).Run(t.Context(), run)
			check(t, "killed", got, Lost, 137, "lease lost; ended by SIGKILL")
		})
		t.Run("keeps it from starting", func(t *testing.T) {
			run, _ := testRun(t)
			run.Kill = now()
			check(t, "killed before", command("true").Run(t.Context(), run), Lost, -1, "lease lost")
		})
	})
}

// A lateContext ends while Run looks at it, and not before the program has ended.
type lateContext struct {
	context.Context
	programEnded func()
	err          error
}

func (c *lateContext) Done() <-chan struct{} {
	c.programEnded()
	c.err = context.Canceled
	return now()
}

func (c *lateContext) Err() error { return c.err }

// What ended by itself keeps its own outcome, also when ctx has ended by the time it is noticed.
func TestCommand_OwnEndCounts(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		for range 5 { // select takes either of two
			run, _ := testRun(t)
			told := ready(&run)
			ctx := &lateContext{Context: t.Context(), programEnded: func() {
				<-told // else it may not have begun
				eventually(t, "the program ends", func() bool { return len(carriersOf(t, run.ID)) == 0 })
				time.Sleep(50 * time.Millisecond) // until its waiter knows
			}}
			check(t, "exit before the end of ctx", command(Shell("echo bye; exit 3")...).Run(ctx, run), Failed, 3, "exit code 3")
		}
	})
}
