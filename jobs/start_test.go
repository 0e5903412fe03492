//go:build linux

package jobs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cases E10, E12, E13 and E20: start failures are told apart, and say what to do.
func TestCommand_StartFailures(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		const script = "#!/bin/sh\nexit 0\n"
		plain := writeFile(t, "plain", script, 0o644)
		crlf := writeFile(t, "crlf", "#!/bin/sh\r\nexit 0\r\n", 0o755)
		lost := writeFile(t, "lost", "#! /no/such/python -u\nexit 0\n", 0o755)
		denied := writeFile(t, "denied", "#!"+plain+"\n", 0o755)
		bare := writeFile(t, "bare", "echo hello\n", 0o755)
		empty := writeFile(t, "empty", "", 0o755)
		foreign := writeFile(t, "foreign", "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 9)+"\x02\x00\xff\xff"+
			strings.Repeat("\x00", 200), 0o755)
		dir := t.TempDir()
		huge := strings.Repeat("x", 200<<10)
		secret := "s3cr3t\x00"

		for _, c := range []struct {
			name string
			cmd  Command
			want string
		}{
			{"nothing named", Command{}, `start: no program is named`},
			{"an empty name", Command{Args: []string{""}}, `start: no program is named`},
			{
				"not in PATH",
				Command{Args: []string{"no-such"}, Env: []string{"PATH=/bin:/usr/bin"}},
				`start "no-such": not found in PATH "/bin:/usr/bin"`,
			},
			{"no such file", Command{Args: []string{"/no/such"}}, `start "/no/such": "/no/such" not found`},
			{
				"a relative file that is not there",
				Command{Args: []string{"bin/x"}, Dir: dir},
				`start "bin/x": "` + dir + `/bin/x" not found`,
			},
			{
				"not executable",
				Command{Args: []string{plain}},
				fmt.Sprintf(`start %q: %q is not executable (mode 0644)`, plain, plain),
			},
			{
				"not executable in PATH",
				Command{Args: []string{"plain"}, Env: []string{"PATH=/no/such:" + filepath.Dir(plain)}},
				fmt.Sprintf(`start "plain": %q is not executable (mode 0644)`, plain),
			},
			{"a directory", Command{Args: []string{dir}}, fmt.Sprintf(`start %q: %q is a directory`, dir, dir)},
			{
				"an interpreter line in CR LF",
				Command{Args: []string{crlf}},
				fmt.Sprintf(`start %q: bad interpreter line in %q: "/bin/sh\r" does not exist, `+
					`the line ends in CR LF; save the file with LF line ends`, crlf, crlf),
			},
			{
				"a missing interpreter",
				Command{Args: []string{lost}},
				fmt.Sprintf(`start %q: bad interpreter line in %q: "/no/such/python" does not exist`, lost, lost),
			},
			{
				"an interpreter that is not executable",
				Command{Args: []string{denied}},
				fmt.Sprintf(`start %q: bad interpreter line in %q: %q may not be executed`, denied, denied, plain),
			},
			{
				"no interpreter line",
				Command{Args: []string{bare}},
				fmt.Sprintf(`start %q: exec format error: %q has no #! line; begin it with #!/bin/sh, `+
					`or run it through shell`, bare, bare),
			},
			{
				"an empty file",
				Command{Args: []string{empty}},
				fmt.Sprintf(`start %q: exec format error: %q is empty`, empty, empty),
			},
			{
				"another machine's program",
				Command{Args: []string{foreign}},
				fmt.Sprintf(`start %q: exec format error: %q is built for another machine`, foreign, foreign),
			},
			{
				"no such directory",
				Command{Args: []string{"/bin/true"}, Dir: "/no/such"},
				`start "/bin/true": dir "/no/such" does not exist`,
			},
			{
				"a file as directory",
				Command{Args: []string{"/bin/true"}, Dir: plain},
				fmt.Sprintf(`start "/bin/true": dir %q is not a directory`, plain),
			},
			{
				"a huge argument",
				Command{Args: []string{"/bin/true", huge}},
				`start "/bin/true": argument list too long: `,
			},
			{
				"a NUL in an argument",
				Command{Args: []string{"/bin/true", secret}},
				`start "/bin/true": argument 1 contains a NUL byte`,
			},
			{
				"a NUL in the environment",
				Command{Args: []string{"/bin/true"}, Env: []string{"KEY=" + secret}},
				`start "/bin/true": environment variable "KEY" contains a NUL byte`,
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				run, out := testRun(t)
				cmd := c.cmd
				cmd.Warden = command().Warden
				got := cmd.Run(t.Context(), run)
				if strings.HasSuffix(c.want, ": ") && strings.HasPrefix(got.Reason, c.want) {
					got.Reason = c.want
				}
				check(t, "Run", got, Failed, -1, c.want)
				if !got.Started.IsZero() || got.Ended.IsZero() || out.Total() != 0 {
					t.Errorf("started %v, ended %v, printed %q; want zero, a time, nothing", got.Started, got.Ended, out)
				}
			})
		}
	})
}

// Case E19: a program that is just being written is tried twice, and only its run fails.
func TestCommand_TextFileBusy(t *testing.T) {
	eachWay(t, func(t *testing.T, command startsCommands) {
		open := func(t *testing.T) (*os.File, string) {
			path := writeFile(t, "busy", "", 0o755)
			body, err := os.ReadFile("/bin/true")
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write(body); err != nil {
				t.Fatal(err)
			}
			return f, path
		}
		t.Run("for a moment", func(t *testing.T) {
			f, path := open(t)
			time.AfterFunc(busyPause/3, func() { f.Close() })
			run, _ := testRun(t)
			check(t, "written for a third of the pause", command(path).Run(t.Context(), run), Succeeded, 0, "")
		})
		t.Run("for longer", func(t *testing.T) {
			f, path := open(t)
			defer f.Close()
			run, _ := testRun(t)
			check(t, "written all the time", command(path).Run(t.Context(), run), Failed, -1,
				fmt.Sprintf("start %q: text file busy: the program is being written, tried twice", path))
		})
		t.Run("again and again", func(t *testing.T) {
			path := writeFile(t, "busy", "#!/bin/sh\n", 0o755)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						_ = os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755)
					}
				}
			}()
			for range 15 {
				run, _ := testRun(t)
				// Whatever it meets: the file empty, half of it, or somebody who writes.
				if got := command(path).Run(t.Context(), run); got.Outcome != Succeeded && !strings.HasPrefix(got.Reason, "start ") {
					t.Errorf("a program that is rewritten: %s, %q; want success or a start failure", got.Outcome, got.Reason)
				}
			}
			close(stop)
			<-stopped
			run, _ := testRun(t)
			check(t, "when it is written", command(path).Run(t.Context(), run), Succeeded, 0, "")
		})
		t.Run("until the run was cancelled", func(t *testing.T) {
			f, path := open(t)
			defer f.Close()
			run, _ := testRun(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(busyPause/3, func() { cancel(ErrCancelled) })
			check(t, "cancelled in the pause", command(path).Run(ctx, run), Cancelled, -1, words(ErrCancelled))
		})
	})
}
