package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rota/jobs"
)

var update = flag.Bool("update", false, "write the golden files of testdata")

// marker is in every secret of the test data, and may be in nothing that is said.
const marker = "3cr3t"

// plain is an environment that depends on nothing of the machine.
func plain() environment {
	return environment{
		hostname: func() (string, error) { return "testhost", nil },
		getenv:   func(string) string { return "" },
		lease:    readLease,
		account:  knownAccount,
		become:   func(*jobs.Account) error { return nil },
		nice:     func(int) error { return nil },
	}
}

// knownAccount knows one user and one group.
func knownAccount(user, group string) (*jobs.Account, error) {
	if user != "" && user != "report" {
		return nil, &jobs.UnknownError{Kind: "user", Name: user}
	}
	if group != "" && group != "adm" {
		return nil, &jobs.UnknownError{Kind: "group", Name: group}
	}
	return &jobs.Account{Name: user, UID: 990, GID: 4}, nil
}

// TestLoad_Faults holds what is said of each file in testdata/bad, byte for byte.
func TestLoad_Faults(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %d files, %v, want some", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			c, err := load(file, plain())
			faults, ok := errors.AsType[*Faults](err)
			if !ok || c != nil || len(faults.All) == 0 {
				t.Fatalf("load = %v, %v, want nil and *Faults", c, err)
			}
			got := strings.ReplaceAll(err.Error(), filepath.Dir(file)+"/", "") + "\n"
			golden(t, strings.TrimSuffix(file, ".toml")+".golden", got)
			mentionsNoSecret(t, err)
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got:\n%s\nwant, from %s:\n%s", got, file, want)
	}
}

// mentionsNoSecret prints v in every way that somebody might.
func mentionsNoSecret(t *testing.T, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), string(text)} {
		if strings.Contains(s, marker) {
			t.Errorf("a secret is in %.2000s", s)
		}
	}
}

// TestLoad_BrokenAnywhere breaks a file full of secrets at every byte, as slips of the keyboard
// and torn writes do, and looks at what is said.
func TestLoad_BrokenAnywhere(t *testing.T) {
	const whole = `namespace = "fleet"
timezone = "UTC"
[redis]
url = "redis://me:3cr3t3cr3t@127.0.0.1:6379/0"
password = "3cr3t3cr3t"
[jobs.a]
schedule = "* * * * *"
command = ["mysql", "-p3cr3t3cr3t"]
env = { A = "3cr3t3cr3t" }
[jobs.b]
schedule = "* * * * *"
shell = 'curl -u x:3cr3t3cr3t'
[jobs.b.env]
TOKEN = """3cr3t3cr3t"""
[jobs.c]
schedule = "* * * * *"
http = { url = "https://me:3cr3t3cr3t@a.example/3cr3t", headers = { X = "3cr3t3cr3t" }, body = "3cr3t3cr3t" }
`
	info, err := os.Stat("testdata/good/empty.toml")
	if err != nil {
		t.Fatal(err)
	}
	try := func(text string) {
		t.Helper()
		c, err := newLoader(plain()).build("rota.toml", []byte(text), info)
		if c != nil {
			for _, w := range c.Warnings {
				mentionsNoSecret(t, w)
			}
			mentionsNoSecret(t, c.Redis.URL)
			return
		}
		if _, ok := errors.AsType[*Faults](err); !ok {
			t.Fatalf("load of %q = %v, want *Faults", text, err)
		}
		mentionsNoSecret(t, err)
	}
	for i := range whole {
		try(whole[:i])
		try(whole[:i] + whole[i+1:])
		for _, c := range "\"\n[x" {
			try(whole[:i] + string(c) + whole[i+1:])
		}
	}
	// Several slips at once leave less of a line to recognise. The seed is fixed: what this finds, it
	// finds again.
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := whole
		for range 2 + r.IntN(3) {
			if i := r.IntN(len(text)); r.IntN(2) == 0 {
				text = text[:i] + text[i+1:]
			} else {
				text = text[:i] + string("\"'\n[]{}=#.,\\ x"[r.IntN(14)]) + text[i:]
			}
		}
		try(text)
	}
}

func TestLoad_FileCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	_, err := load(filepath.Join(dir, "none.toml"), plain())
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("load of no file = %v, want fs.ErrNotExist with the package's prefix", err)
	}
	_, err = load(dir, plain())
	if _, isFaults := errors.AsType[*Faults](err); err == nil || isFaults {
		t.Errorf("load of a directory = %v, want an error of the operating system", err)
	}
	_, err = load("/dev/zero", plain())
	if err == nil || !strings.Contains(err.Error(), "larger than 4MiB") {
		t.Errorf("load of /dev/zero = %v, want its size refused", err)
	}
}
