//go:build linux

package jobs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// needRoot is for tests of what only root may do.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("needs root")
	}
}

// status prints what a process is to the kernel.
const status = `grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs):' /proc/self/status | tr '\t' ' ' | sed 's/ *$//'`

// wantStatus is what status prints for an identity without any capability, but for those that a daemon
// hands on and that give nothing by themselves (capabilities(7), inheritable set).
func wantStatus(t *testing.T, uid, gid uint32, groups []uint32, inherited ...uintptr) string {
	t.Helper()
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	line := func(name string) string {
		_, after, _ := strings.Cut(string(own), "\n"+name+":\t")
		value, _, _ := strings.Cut(after, "\n")
		return value
	}
	inheritable, err := strconv.ParseUint(line("CapInh"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range inherited {
		inheritable |= 1 << c
	}
	slices.Sort(groups)
	list := strings.TrimRight("Groups: "+strings.Trim(fmt.Sprint(slices.Compact(groups)), "[]"), " ")
	four := func(n uint32) string { return strings.TrimSpace(strings.Repeat(fmt.Sprint(n, " "), 4)) }
	none := strings.Repeat("0", 16)
	return fmt.Sprintf("Uid: %s\nGid: %s\n%s\nCapInh: %016x\nCapPrm: %s\nCapEff: %s\nCapAmb: %s\nNoNewPrivs: %s\n",
		four(uid), four(gid), list, inheritable, none, none, none, line("NoNewPrivs"))
}

// Groups, group and user are all dropped: had the user been dropped first, the other two would have been
// refused. Privileges may be gained again as ever, by sudo(8), say.
func TestCommand_RunsAs(t *testing.T) {
	needRoot(t)
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct{ user, group string }{
			{"nobody", ""},
			{"daemon", ""},
			{"daemon", "adm"},
			{"4711", "4712"},
			{"mail", "4712"},
		} {
			t.Run(c.user+":"+c.group, func(t *testing.T) {
				a, err := LookupAccount(t.Context(), c.user, c.group)
				if err != nil {
					t.Fatal(err)
				}
				run, out := testRun(t)
				cmd := command(Shell(status)...)
				cmd.User, cmd.Group = c.user, c.group
				check(t, "as "+c.user, cmd.Run(t.Context(), run), Succeeded, 0, "")
				if want := wantStatus(t, a.UID, a.GID, a.Groups); out.String() != want {
					t.Errorf("it is\n%s\nwant\n%s", out, want)
				}
			})
		}
		t.Run("a group alone", func(t *testing.T) {
			run, out := testRun(t)
			cmd := command(Shell("id -u; id -g; id -G")...)
			cmd.Group = "4712"
			check(t, "as another group", cmd.Run(t.Context(), run), Succeeded, 0, "")
			own, err := LookupAccount(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			groups := slices.Concat([]uint32{4712}, own.Groups)
			if want := fmt.Sprintf("0\n4712\n%s\n", strings.Trim(fmt.Sprint(groups), "[]")); out.String() != want {
				t.Errorf("user, group and groups are\n%s\nwant\n%s", out, want)
			}
		})
		t.Run("many groups", func(t *testing.T) {
			run, out := testRun(t)
			cmd := command(Shell(status)...)
			s, err := cmd.spec(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			s.as = &identity{uid: 4711, gid: 4712}
			for g := range uint32(20_000) { // more than a packet holds
				s.as.groups = append(s.as.groups, 100_000+g)
			}
			got, err := cmd.start(t.Context(), run, s)
			if err != nil {
				t.Fatal(err)
			}
			check(t, "in many groups", got, Succeeded, 0, "")
			if want := wantStatus(t, 4711, 4712, s.as.groups); out.Total() != int64(len(want)) {
				t.Errorf("it printed %d bytes, want %d", out.Total(), len(want))
			}
		})
	})
}

// What a program of another user needs: its surroundings name that user, and it may open its own output
// anew, as scripts do with /dev/stderr.
func TestCommand_RunsAsInItsSurroundings(t *testing.T) {
	needRoot(t)
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, out := testRun(t)
		cmd := command(Shell(`echo "$HOME $USER $LOGNAME $SHELL" >/dev/stdout; echo more >>/dev/stderr; cat </dev/stdin; pwd`)...)
		cmd.User = "backup"
		cmd.Base = BaseEnv(&Account{Name: "root", Home: "/root", Shell: "/bin/bash"}, "", []string{"HOME=/passed"})
		check(t, "as backup", cmd.Run(t.Context(), run), Succeeded, 0, "")
		if want := "/var/backups backup backup /bin/sh\nmore\n/\n"; out.String() != want {
			t.Errorf("it printed %q, want %q", out, want)
		}
	})
}

// A change of the identity takes the parent-death signal away (PR_SET_PDEATHSIG in prctl(2)), so it has to
// be asked for after that.
func TestCommand_RunsAsAndDiesWithTheWarden(t *testing.T) {
	needRoot(t)
	for _, user := range []string{"", "nobody"} {
		run, out := testRun(t)
		cmd := command("/proc/self/exe") // of the warden, and so this one
		cmd.User, cmd.Env = user, []string{roleVariable + "=show-death"}
		check(t, "Run", cmd.Run(t.Context(), run), Succeeded, 0, "")
		if out.String() != "killed\n" {
			t.Errorf("when its parent dies a program of %q gets %q, want SIGKILL", user, out)
		}
	}
}

// showDeath is a program that prints what it gets when its parent dies.
func showDeath() {
	var sig int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0); err != nil {
		fmt.Println(err)
	}
	fmt.Println(syscall.Signal(sig))
}

// Everything of a run that is another user's is ended all the same: what left its session, too.
func TestCommand_RunsAsAndEnds(t *testing.T) {
	needRoot(t)
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, _ := testRun(t)
		run.Kill = ready(&run)
		cmd := command(Shell("setsid sleep 300 & trap '' TERM; sleep 300 & echo ready; wait; wait; sleep 300")...)
		cmd.User = "nobody"
		check(t, "killed", cmd.Run(t.Context(), run), Lost, 137, "lease lost; ended by SIGKILL")
		wantNone(t, run.ID)
	})
}

// What may be reached and executed is what the user may, also when PATH is searched (execvp(3)). Root
// may everything.
func TestCommand_MayWhatItsUserMay(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	for dir, mode := range map[string]os.FileMode{filepath.Dir(top): 0o755, top: 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"closed/tool": 0o755, "roots/tool": 0o700, "open/tool": 0o755} {
		path := filepath.Join(top, name)
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+name+"\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(top+"/closed", 0o700); err != nil {
		t.Fatal(err)
	}
	nobody, err := LookupAccount(t.Context(), "nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprint("user ", nobody.UID)
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			name, program, path, dir string
			want                     string // printed, or why it did not start
		}{
			{"the first that it may execute", "tool", "PATH=TOP/closed:TOP/roots:TOP/open", "/", "open/tool\n"},
			{"none that it may", "tool", "PATH=TOP/closed:TOP/roots", "/", `start "tool": "TOP/roots/tool" may not be executed by ` + user + `, or is on a noexec mount (mode 0700)`},
			{"none that it sees", "tool", "PATH=TOP/closed", "/", `start "tool": not found in PATH "TOP/closed"`},
			{"a program behind a closed door", "TOP/closed/tool", "A=1", "/", `start "TOP/closed/tool": "TOP/closed/tool" may not be reached by ` + user},
			{"a program of root's", "TOP/roots/tool", "A=1", "/", `start "TOP/roots/tool": "TOP/roots/tool" may not be executed by ` + user + `, or is on a noexec mount (mode 0700)`},
			{"a directory of root's", "/bin/true", "A=1", "TOP/closed", `start "/bin/true": dir "TOP/closed" may not be entered by ` + user},
			{"a directory behind one", "/bin/true", "A=1", "TOP/closed/x", `start "/bin/true": dir "TOP/closed/x" may not be reached by ` + user},
			{"a directory that is not there", "/bin/true", "A=1", "TOP/none", `start "/bin/true": dir "TOP/none" does not exist`},
		} {
			t.Run(c.name, func(t *testing.T) {
				at := func(s string) string { return strings.ReplaceAll(s, "TOP", top) }
				run, out := testRun(t)
				cmd := command(at(c.program))
				cmd.User, cmd.Dir, cmd.Env = "nobody", at(c.dir), []string{at(c.path)}
				got := cmd.Run(t.Context(), run)
				if strings.HasSuffix(c.want, "\n") {
					check(t, "Run", got, Succeeded, 0, "")
					if out.String() != c.want {
						t.Errorf("it printed %q, want %q", out, c.want)
					}
					return
				}
				check(t, "Run", got, Failed, -1, at(c.want))
			})
		}
	})
}

func TestCommand_UnknownAccounts(t *testing.T) {
	for _, c := range []struct{ user, group, want string }{
		{"no-such", "", `start "true": no such user on this host: "no-such"`},
		{"root", "no-such", `start "true": no such group on this host: "no-such"`},
	} {
		run, _ := testRun(t)
		cmd := command("true")
		cmd.User, cmd.Group = c.user, c.group
		got := cmd.Run(t.Context(), run)
		got.Reason, _, _ = strings.Cut(got.Reason, "; or the") // where a directory service is asked
		check(t, "as "+c.user+":"+c.group, got, Failed, -1, c.want)
	}
	run, _ := testRun(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cmd := command("true")
	cmd.User, cmd.EnvFile = "no-such", "/no/such"
	cancel(ErrCancelled)
	check(t, "cancelled while it looks", cmd.Run(ctx, run), Cancelled, -1, "cancelled")
}

// The mask and the priority are the run's alone, whatever the run before it had.
func TestCommand_UmaskAndNice(t *testing.T) {
	here, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	base := 20 - here
	mask := unix.Umask(0o22)
	defer unix.Umask(mask)
	eachWay(t, func(t *testing.T, command startsCommands) {
		for _, c := range []struct {
			umask, nice *int
			want        string
		}{
			{nil, nil, fmt.Sprintln("0022", base)},
			{new(0o27), nil, fmt.Sprintln("0027", base)},
			{nil, new(base + 1), fmt.Sprintln("0022", base+1)},
			{new(0), new(19), "0000 19\n"},
			{new(0o777), new(base + 2), fmt.Sprintln("0777", base+2)},
			{nil, new(base + 1), fmt.Sprintln("0022", base+1)},
			{new(0o22), new(base), fmt.Sprintln("0022", base)},
			{nil, nil, fmt.Sprintln("0022", base)},
		} {
			run, out := testRun(t)
			cmd := command(Shell(`echo "$(umask) $(nice)"`)...)
			cmd.Umask, cmd.Nice = c.umask, c.nice
			check(t, "Run", cmd.Run(t.Context(), run), Succeeded, 0, "")
			if out.String() != c.want {
				t.Errorf("umask and nice are %q, want %q", out, c.want)
			}
		}
		if now := unix.Umask(0o22); now != 0o22 {
			t.Errorf("the mask of this process has become %#o", now)
		}
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || now != here {
			t.Errorf("the priority of this process has become %d, %v, want %d", 20-now, err, base)
		}
	})
}

func TestCommand_HigherPriority(t *testing.T) {
	needRoot(t)
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, out := testRun(t)
		cmd := command("nice")
		cmd.Nice, cmd.User = new(-7), "nobody"
		check(t, "Run", cmd.Run(t.Context(), run), Succeeded, 0, "")
		if out.String() != "-7\n" {
			t.Errorf("nice is %q, want -7", out)
		}
	})
}

// Each layer of the environment wins over the one before.
func TestCommand_EnvironmentLayers(t *testing.T) {
	file := writeFile(t, "env", "B=file\nC='file'\nD=file\nROTAS=file\nPATH=/no/such:/usr/bin:/bin\n", 0o600)
	eachWay(t, func(t *testing.T, command startsCommands) {
		run, out := testRun(t)
		cmd := command("env")
		cmd.Base = []string{"A=base", "B=base", "C=base", "ROTA_JOB=base", "PATH=/no/such"}
		cmd.EnvFile = file
		cmd.Env = []string{"C=own", "E=own", "ROTA_RUN=own"}
		check(t, "env", cmd.Run(t.Context(), run), Succeeded, 0, "")
		want := strings.Join([]string{
			"A=base", "B=file", "C=own", "ROTA_JOB=backup", "PATH=/no/such:/usr/bin:/bin", "D=file", "ROTAS=file", "E=own",
			"ROTA_RUN=" + run.ID,
		}, "\n")
		if got, _, _ := strings.Cut(out.String(), "\nROTA_TICK"); got != want {
			t.Errorf("env printed\n%s\nwant\n%s", got, want)
		}
	})
}

// The file is read by each start, and what is wrong with it is a start failure that shows nothing of it.
func TestCommand_EnvFile(t *testing.T) {
	file := writeFile(t, "env", "A=1\n", 0o600)
	for text, want := range map[string]string{
		"A=1\n":          "1\n",
		"A='2\n3'\n":     "2\n3\n",
		"A=1\n3cr3t\n":   `start "sh": env_file "` + file + `": line 2: it has no "=", and is neither empty nor a comment`,
		"A=1\n3cr3t=x\n": `start "sh": env_file "` + file + `": line 2: what stands before the "=" is not the name of a variable`,
		"":               `start "sh": env_file "` + file + `": no such file or directory`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		run, out := testRun(t)
		cmd := command("sh", "-c", `printf '%s\n' "$A"`)
		cmd.EnvFile = file
		got := cmd.Run(t.Context(), run)
		if strings.HasSuffix(want, "\n") {
			check(t, "Run", got, Succeeded, 0, "")
			if out.String() != want {
				t.Errorf("A is %q, want %q", out, want)
			}
			continue
		}
		check(t, "Run", got, Failed, -1, want)
	}
}

// wishVariable is what a daemon in the role "wish" is asked for: user, group and nice, of several runs.
const wishVariable = "JOBS_TEST_WISH"

// wish is a daemon that is asked to run something as somebody, in both ways. It prints how that ended.
func wish() {
	warden, err := StartWarden(WardenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer warden.Close()
	for i, wish := range strings.Split(strings.Repeat(";"+os.Getenv(wishVariable), 2)[1:], ";") {
		w := warden
		if i > strings.Count(os.Getenv(wishVariable), ";") {
			w = nil
		}
		user, rest, _ := strings.Cut(wish, ",")
		group, nice, _ := strings.Cut(rest, ",")
		cmd := Command{Args: Shell(status), User: user, Group: group, Warden: w, Env: []string{"PATH=/usr/bin:/bin"}}
		if n, err := strconv.Atoi(nice); err == nil {
			cmd.Nice = new(n)
			if err := MayNice(n); err != nil {
				fmt.Println("MayNice:", err)
			}
		}
		got := cmd.Run(context.Background(), Run{Output: os.Stdout})
		fmt.Println(got.Outcome, got.Reason)
	}
}

// wishAs plays that daemon as a user who is not root, with capabilities or none.
func wishAs(t *testing.T, uid uint32, wish string, capabilities ...uintptr) string {
	t.Helper()
	// By its own name the binary may be out of reach.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=wish", wishVariable+"="+wish)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{4711}},
		AmbientCaps: capabilities,
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// A daemon that is not root runs what is its own, and says why it does not run what is not.
func TestCommand_DaemonThatIsNotRoot(t *testing.T) {
	needRoot(t)
	const uid = 65534
	twice := func(s string) string { return s + s }
	own := wantStatus(t, uid, uid, []uint32{4711}) + "succeeded \n"
	const not = "only root may run anything as another user or group, and this is user 65534, without "
	for _, c := range []struct {
		name, wish string
		caps       []uintptr
		want       string
	}{
		{"nobody else", ",,", nil, own},
		{"its own user", "nobody,,", nil, own},
		{"its own group", ",nogroup,", nil, own},
		{"root", "root,,", nil, `failed start "/bin/sh": user "root": ` + not + "CAP_SETUID, CAP_SETGID, CAP_KILL\n"},
		{"another user", "daemon,adm,", nil, `failed start "/bin/sh": user "daemon", group "adm": ` + not + "CAP_SETUID, CAP_SETGID, CAP_KILL\n"},
		{"another group", ",adm,", nil, `failed start "/bin/sh": group "adm": ` + not + "CAP_SETGID\n"},
		{"without the right to kill", "daemon,,", []uintptr{unix.CAP_SETUID, unix.CAP_SETGID}, `failed start "/bin/sh": user "daemon": ` + not + "CAP_KILL\n"},
		{
			"a priority", ",,-1", nil,
			"MayNice: nice -1: a higher priority than the daemon's takes root, or CAP_SYS_NICE, or RLIMIT_NICE\n" +
				`failed start "/bin/sh": nice -1: a higher priority than the daemon's takes root, or CAP_SYS_NICE, or RLIMIT_NICE` + "\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := wishAs(t, uid, c.wish, c.caps...); got != twice(c.want) {
				t.Errorf("it prints\n%s\nwant\n%s", got, twice(c.want))
			}
		})
	}
	t.Run("with the capabilities for it", func(t *testing.T) {
		caps := []uintptr{unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID}
		a, err := LookupAccount(t.Context(), "daemon", "")
		if err != nil {
			t.Fatal(err)
		}
		// What the daemon may, the job of another user may not: it could become root.
		want := wantStatus(t, a.UID, a.GID, a.Groups, caps...) + "succeeded \n"
		// Its own get them as before.
		own := wantStatus(t, uid, uid, []uint32{4711}, caps...) + "succeeded \n"
		for _, set := range []string{"Prm", "Eff", "Amb"} {
			own = strings.Replace(own, "Cap"+set+": 0000000000000000", "Cap"+set+": 00000000000000e0", 1)
		}
		want += own
		if got := wishAs(t, uid, "daemon,,;,,", caps...); got != twice(want) {
			t.Errorf("it prints\n%s\nwant\n%s", got, twice(want))
		}
	})
}
