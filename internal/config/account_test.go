package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rota/jobs"
)

// warningsOf loads a job with these lines and returns what is said of it, without its place.
func warningsOf(t *testing.T, env environment, lines string) []string {
	t.Helper()
	c, err := load(write(t, map[string]string{"rota.toml": "[jobs.a]\nschedule = \"@daily\"\ncommand = [\"true\"]\n" + lines}), env)
	if err != nil {
		t.Fatalf("load of\n%s\n= %v", lines, err)
	}
	for i, w := range c.Warnings {
		_, c.Warnings[i], _ = strings.Cut(w, ": ")
	}
	return c.Warnings
}

// What depends on who asks, and when, is no fault: the daemon may be somebody else, and later.
func TestLoad_WarnsOfAccounts(t *testing.T) {
	for _, tc := range []struct {
		name, lines string
		env         func(*environment)
		want        []string
	}{
		{"all is well", "user = \"report\"\numask = \"077\"\nnice = -5\n", func(*environment) {}, nil},
		{
			"this user may not become the other", "user = \"report\"\n",
			func(env *environment) { env.become = func(*jobs.Account) error { return errors.New("only root may") } },
			[]string{"jobs.a.user: runs would fail if the daemon were this user: only root may"},
		},
		{
			"nor of the group", "group = \"adm\"\n",
			func(env *environment) { env.become = func(*jobs.Account) error { return errors.New("only root may") } },
			[]string{"jobs.a.group: runs would fail if the daemon were this user: only root may"},
		},
		{
			"nor have the priority", "nice = -5\n",
			func(env *environment) { env.nice = func(int) error { return errors.New("only root may") } },
			[]string{"jobs.a.nice: runs would fail if the daemon were this user: only root may"},
		},
		{
			"a directory service does not know the user now", "user = \"ldap\"\n",
			func(env *environment) {
				env.account = func(string, string) (*jobs.Account, error) {
					return nil, &jobs.UnknownError{Kind: "user", Name: "ldap", Elsewhere: true}
				}
			},
			[]string{`jobs.a.user: no such user on this host: "ldap"; or the directory service that /etc/nsswitch.conf names does not answer`},
		},
		{
			"it does not answer", "user = \"ldap\"\n",
			func(env *environment) {
				env.account = func(string, string) (*jobs.Account, error) {
					return nil, errors.New("getent passwd did not answer in time")
				}
			},
			[]string{"jobs.a.user: runs would fail if the daemon were this user: getent passwd did not answer in time"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := plain()
			tc.env(&env)
			if got := warningsOf(t, env, tc.lines); !slices.Equal(got, tc.want) {
				t.Errorf("Warnings = %q, want %q", got, tc.want)
			}
		})
	}
}

// A thousand jobs of one user are one question.
func TestLoad_AsksForAnAccountOnce(t *testing.T) {
	env, asked := plain(), 0
	env.account = func(user, group string) (*jobs.Account, error) {
		asked++
		return knownAccount(user, group)
	}
	const job = "schedule = \"@daily\"\nshell = \"true\"\n"
	path := write(t, map[string]string{"rota.toml": "[defaults]\nuser = \"report\"\n[jobs.a]\n" + job + "[jobs.b]\n" + job + "[jobs.c]\nuser = \"\"\n" + job})
	if _, err := load(path, env); err != nil || asked != 1 {
		t.Errorf("load asked %d times, %v; want once", asked, err)
	}
}

// A directory service that does not answer is waited for once, not once a user.
func TestLoad_WaitsForAccountsOnce(t *testing.T) {
	env, asked := plain(), 0
	env.account = func(string, string) (*jobs.Account, error) {
		asked++
		return nil, fmt.Errorf("getent: %w", context.DeadlineExceeded)
	}
	const job = "schedule = \"@daily\"\nshell = \"true\"\n"
	c, err := load(write(t, map[string]string{"rota.toml": "[jobs.a]\nuser = \"a\"\n" + job + "[jobs.b]\nuser = \"b\"\n" + job}), env)
	if err != nil || asked != 1 || len(c.Warnings) != 2 {
		t.Errorf("load = %+v, %v, asked %d times; want two warnings and one question", c, err, asked)
	}
}

// What is wrong in an env_file is a fault; nothing of what it holds is said, or kept.
func TestLoad_EnvFiles(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"good":          {"TOKEN=3cr3t\n", ""},
		"empty":         {"", ""},
		"no =":          {"A=1\n3cr3t\n", `"ENV", line 2: it has no "=", and is neither empty nor a comment`},
		"a bad name":    {"3cr3t=1\n", `"ENV", line 1: what stands before the "=" is not the name of a variable`},
		"shell":         {"export TOKEN=3cr3t\n", `"ENV", line 1: it is shell: leave "export" out`},
		"an open quote": {"A=1\nB='3cr3t\n\n", `"ENV", line 2: its quote is never closed`},
		"Rota's own":    {"ROTA_JOB=3cr3t\n", `"ENV", line 1: variables that begin with ROTA_ are set by Rota alone`},
		"not UTF-8":     {"A=3cr3t\xff\n", `"ENV", not UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(filepath.Dir(write(t, map[string]string{"a.env": tc.text})), "a.env")
			text := "[jobs.a]\nschedule = \"@daily\"\nshell = \"true\"\nenv_file = \"" + file + "\"\n"
			path := write(t, map[string]string{"rota.toml": text})
			c, err := load(path, plain())
			if tc.want == "" {
				if err != nil || len(c.Warnings) > 0 {
					t.Fatalf("load = %+v, %v, want it taken", c, err)
				}
				mentionsNoSecret(t, c)
				mentionsNoSecret(t, c.Table(t.Context(), nil))
				mentionsNoSecret(t, c.Jobs[0].Definition())
				return
			}
			want := []string{"rota.toml:4: jobs.a.env_file: " + strings.ReplaceAll(tc.want, "ENV", file)}
			if got := faultsOf(t, path, plain()); !slices.Equal(got, want) {
				t.Errorf("load = %q, want %q", got, want)
			}
			mentionsNoSecret(t, err)
		})
	}
}

// Whoever checks may have fewer rights than the daemon: of what they may not read they cannot tell, and
// `rota status` is not for those alone who may.
func TestLoad_EnvFileOfAnotherUser(t *testing.T) {
	for name, shut := range map[string]func(dir, file string) error{
		"the folder": func(dir, _ string) error { return os.Chmod(dir, 0) },
		"the file":   func(dir, file string) error { return errors.Join(os.Chmod(dir, 0o755), os.Chmod(file, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, map[string]string{"private/a.env": "TOKEN=3cr3t\n"})
			dir := filepath.Dir(path)
			file := filepath.Join(dir, "private/a.env")
			text := "[jobs.a]\nschedule = \"@daily\"\nshell = \"true\"\nenv_file = \"" + file + "\"\n"
			old := time.Now().Add(-time.Hour) // else who has no lease waits until it rests
			if err := errors.Join(
				os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, old, old),
				os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755), shut(filepath.Dir(file), file),
			); err != nil {
				t.Fatal(err)
			}
			loaded := make(chan error, 1)
			go func() {
				// For root: a thread that may reach what nobody may, and ends with the goroutine.
				runtime.LockOSThread()
				_ = unix.Setfsuid(65534)
				c, err := load(path, plain())
				if err == nil {
					want := path + ":4: jobs.a.env_file: runs would fail if the daemon were this user: \"" + file + "\" cannot be read: permission denied"
					if !slices.Equal(c.Warnings, []string{want}) {
						err = fmt.Errorf("Warnings = %q, want %q", c.Warnings, want)
					}
				}
				loaded <- err
			}()
			if err := <-loaded; err != nil {
				t.Errorf("load as somebody else: %v", err)
			}
			if err := os.Chmod(filepath.Dir(file), 0o700); err != nil {
				t.Error(err)
			}
		})
	}
}

// Who only looks is not kept from it by what runs need on this host.
func TestLoadToLook_AsksForNothingThatRunsNeed(t *testing.T) {
	path := write(t, map[string]string{"rota.toml": "[jobs.a]\nschedule = \"@daily\"\nshell = \"true\"\nenv_file = \"/no/such/env\"\nuser = \"no-such-user\"\n"})
	if c, err := LoadToLook(path); err != nil || len(c.Warnings) > 0 || c.Jobs[0].EnvFile != "/no/such/env" {
		t.Errorf("LoadToLook = %+v, %v, want the table without a warning", c, err)
	}
	if _, err := Load(path); err == nil {
		t.Error("Load has no fault, want two")
	}
}
