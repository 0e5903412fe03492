package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// jobsOf is a table of n jobs; its beginning is a table too, of fewer.
func jobsOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "[jobs.j%02d]\nschedule = \"@daily\"\nshell = \"true\"\n", i)
	}
	return b.String()
}

// withoutLease is the environment of a user who gets no lease.
func withoutLease() environment {
	env := plain()
	env.lease = func(*os.File) (func(), error) { return nil, errors.ErrUnsupported }
	return env
}

// writeSlowly writes text in place, in pieces with a pause after each. It returns once the first
// piece is there; the rest is written until the test ends.
func writeSlowly(t *testing.T, path, text string, pieces int, pause time.Duration) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size := (len(text) + pieces - 1) / pieces
	put := func(i int) {
		if _, err := f.WriteString(text[i*size : min(len(text), (i+1)*size)]); err != nil {
			t.Error(err)
		}
	}
	put(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; i <= pieces; i++ {
			select {
			case <-time.After(pause):
			case <-t.Context().Done():
				i = pieces
			}
			if i < pieces {
				put(i)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(wg.Wait)
}

// T18: a reload while somebody is half-way through a file sees all of it.
func TestLoad_WaitsForWriters(t *testing.T) {
	for _, tc := range []struct {
		name   string
		env    environment
		pieces int
		pause  time.Duration
	}{
		{"one who rests, seen by the lease", plain(), 2, 800 * time.Millisecond},
		{"one who goes on, seen by the file", withoutLease(), 4, 300 * time.Millisecond},
	} {
		for _, file := range []string{"rota.toml", "jobs.d/a.toml"} {
			t.Run(tc.name+", "+file, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					main := write(t, map[string]string{"rota.toml": "include = [\"jobs.d/*.toml\"]\n", "jobs.d/a.toml": ""})
					writeSlowly(t, filepath.Join(filepath.Dir(main), file), jobsOf(10), tc.pieces, tc.pause)
					c, err := load(main, tc.env)
					if err != nil || len(c.Jobs) != 10 {
						t.Errorf("load while %s is written = %v, %v, want all 10 jobs", file, c, err)
					}
				})
			})
		}
	}
}

// T18: what is not finished within 2 s is refused, with the reason.
func TestLoad_WritersThatDoNotFinish(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		env        environment
		want       string
	}{
		{"main file", "rota.toml", plain(), "config: read rota.toml: still open for writing after 2s"},
		{"include", "jobs.d/a.toml", plain(), `rota.toml:1: include: "jobs.d/a.toml" cannot be read: still open for writing after 2s`},
		{"main file without a lease", "rota.toml", withoutLease(), "config: read rota.toml: still changing after 2s"},
		{"include without a lease", "jobs.d/a.toml", withoutLease(), "config: read jobs.d/a.toml: still changing after 2s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				main := write(t, map[string]string{"rota.toml": "include = [\"jobs.d/*.toml\"]\n", "jobs.d/a.toml": ""})
				dir := filepath.Dir(main) + "/"
				writeSlowly(t, dir+tc.file, jobsOf(100), 50, 100*time.Millisecond)
				start := time.Now()
				c, err := load(main, tc.env)
				if err == nil || strings.ReplaceAll(err.Error(), dir, "") != tc.want {
					t.Errorf("load = %v, %v, want %s", c, err, tc.want)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("load took %s, want about 2s", took)
				}
			})
		})
	}
}

// Two writers in a row do not get 2 s each.
func TestLoad_PatienceIsForAllFilesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main := write(t, map[string]string{"rota.toml": "include = [\"*.d/*.toml\", \"a.toml\", \"b.toml\", \"c.toml\"]\n"})
		for _, name := range []string{"a.toml", "b.toml", "c.toml"} {
			writeSlowly(t, filepath.Join(filepath.Dir(main), name), jobsOf(1), 2, 5*time.Second)
		}
		start := time.Now()
		_, err := load(main, plain())
		if got := strings.Count(fmt.Sprint(err), "still open for writing"); got != 3 {
			t.Errorf("load = %v, want all three files named", err)
		}
		if took := time.Since(start); took > 2100*time.Millisecond {
			t.Errorf("load took %s, want 2s", took)
		}
	})
}

// A file that rests costs no time; one that has just been written costs half a second where there
// is no lease.
func TestLoad_WaitsOnlyWhereItMust(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  environment
		age  time.Duration
		want time.Duration
	}{
		{"new, with a lease", plain(), 0, 0},
		{"new, without", withoutLease(), 0, settle},
		{"old, without", withoutLease(), 2 * time.Minute, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				main := write(t, map[string]string{"rota.toml": "include = [\"a.toml\"]\n", "a.toml": jobsOf(1)})
				written := time.Now().Add(-tc.age)
				for _, name := range []string{main, filepath.Join(filepath.Dir(main), "a.toml")} {
					if err := os.Chtimes(name, written, written); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				if _, err := load(main, tc.env); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("load took %s, want %s", took, tc.want)
				}
			})
		})
	}
}

// A writer who puts the old time back, and as many bytes as there were, is seen all the same.
func TestLoad_SeesTheContentChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		main := write(t, map[string]string{"rota.toml": "[host]\nname = \"old\"\n"})
		info, err := os.Stat(main)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(settle / 2)
			if err := os.WriteFile(main, []byte("[host]\nname = \"new\"\n"), 0o600); err != nil {
				t.Error(err)
			}
			if err := os.Chtimes(main, info.ModTime(), info.ModTime()); err != nil {
				t.Error(err)
			}
		}()
		if c, err := load(main, withoutLease()); err != nil || c.Host.Name != "new" {
			t.Errorf("load = %v, %v, want the new name", c, err)
		}
	})
}

// swapAt is an environment in which swap happens once, right after the file of that name was
// opened.
func swapAt(t *testing.T, name string, swap func() error) environment {
	t.Helper()
	env, done := plain(), false
	env.lease = func(f *os.File) (func(), error) {
		if !done && filepath.Base(f.Name()) == name {
			done = true
			if err := swap(); err != nil {
				t.Error(err)
			}
		}
		return readLease(f)
	}
	return env
}

// T18: whatever is put in the place of a file while it is read, the table is the old one or the
// new one. Here the new one, since the load goes on after it is there.
func TestLoad_SwapsAreSeenWhole(t *testing.T) {
	const include = "include = [\"jobs.d/*.toml\"]\n"
	version := func(v string) map[string]string {
		job := func(name string) string { return strings.ReplaceAll(jobsOf(1), "j00", name+"-"+v) }
		return map[string]string{"rota.toml": include + job("main"), "jobs.d/a.toml": job("a"), "jobs.d/" + v + ".toml": job("only")}
	}
	// As the kubelet does: the files are links into ..data, a link that is replaced; then what it
	// pointed to is deleted.
	configMap := func(t *testing.T) (main string, swap func() error) {
		files := map[string]string{}
		for _, v := range []string{"old", "new"} {
			for name, text := range version(v) {
				files[".."+v+"/"+name] = text
			}
		}
		dir := filepath.Dir(write(t, files))
		for name, target := range map[string]string{"..data": "..old", "rota.toml": "..data/rota.toml", "jobs.d": "..data/jobs.d", "..next": "..new"} {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, "rota.toml"), func() error {
			if err := os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")); err != nil {
				return err
			}
			return os.RemoveAll(filepath.Join(dir, "..old"))
		}
	}
	renamed := func(file, text string) func(t *testing.T) (string, func() error) {
		return func(t *testing.T) (string, func() error) {
			files := version("old")
			files["next"] = text
			main := write(t, files)
			dir := filepath.Dir(main)
			return main, func() error { return os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, file)) }
		}
	}
	renewed := strings.ReplaceAll(jobsOf(1), "j00", "renamed")
	for _, tc := range []struct {
		name, when string
		make       func(t *testing.T) (main string, swap func() error)
		want       []string
	}{
		{"links, while the main file is read", "rota.toml", configMap, []string{"a-new", "main-new", "only-new"}},
		{"links, while an included file is read", "a.toml", configMap, []string{"a-new", "main-new", "only-new"}},
		{"rename of the main file", "rota.toml", renamed("rota.toml", include+renewed), []string{"a-old", "only-old", "renamed"}},
		{"rename of the main file, later", "old.toml", renamed("rota.toml", include+renewed), []string{"a-old", "only-old", "renamed"}},
		{"rename of an included file", "a.toml", renamed("jobs.d/a.toml", renewed), []string{"main-old", "only-old", "renamed"}},
		{"another included file", "old.toml", renamed("jobs.d/b.toml", renewed), []string{"a-old", "main-old", "only-old", "renamed"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			main, swap := tc.make(t)
			c, err := load(main, swapAt(t, tc.when, swap))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range c.Jobs {
				got = append(got, j.Name)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("load = jobs %q, want %q", got, tc.want)
			}
		})
	}
}

// What there was only for a moment is no fault.
func TestLoad_FaultsOfAHalfSwapAreNotReported(t *testing.T) {
	main := write(t, map[string]string{"rota.toml": "include = [\"a.toml\"]\n"})
	env := swapAt(t, "rota.toml", func() error { return nil })
	lookups := 0
	hostname := env.hostname
	env.hostname = func() (string, error) { // asked after the includes
		if lookups++; lookups == 1 {
			if err := os.WriteFile(filepath.Join(filepath.Dir(main), "a.toml"), []byte(jobsOf(1)), 0o600); err != nil {
				t.Error(err)
			}
		}
		return hostname()
	}
	if c, err := load(main, env); err != nil || len(c.Jobs) != 1 || lookups != 2 {
		t.Errorf("load = %v, %v after %d tries, want the file that came meanwhile", c, err, lookups)
	}
}

// A table may come through a pipe, as in rota check -c <(generate). It comes once, however often
// the files beside it have to be read.
func TestLoad_FromAPipe(t *testing.T) {
	dir := t.TempDir()
	included := filepath.Join(dir, "a.toml")
	if err := os.WriteFile(included, []byte(jobsOf(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		for _, text := range []string{"include = [\"", included, "\"]\n"} {
			time.Sleep(time.Millisecond) // so that it comes in pieces
			if _, err := w.WriteString(text); err != nil {
				t.Error(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	env := swapAt(t, "a.toml", func() error { return os.WriteFile(included, []byte(jobsOf(3)), 0o600) })
	c, err := load(fmt.Sprintf("/dev/fd/%d", r.Fd()), env)
	if err != nil || len(c.Jobs) != 3 {
		t.Errorf("load = %v, %v, want the 3 jobs beside the pipe", c, err)
	}
}

// The same through a name: a FIFO's other end is another process.
func TestLoad_FromAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	makeFIFO(t, path)
	go func() {
		if err := os.WriteFile(path, []byte(jobsOf(2)), 0); err != nil {
			t.Error(err)
		}
	}()
	if c, err := load(path, plain()); err != nil || len(c.Jobs) != 2 {
		t.Errorf("load = %v, %v, want 2 jobs", c, err)
	}
}

// A file that is missing for a moment, because somebody replaces it the wrong way round, is there
// when one looks again.
func TestFiles_SeesWhatComesMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := newFiles(readLease)
	if _, _, err := f.read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("read of no file = %v, want fs.ErrNotExist", err)
	}
	if got := f.changed(); got != "" {
		t.Errorf("changed = %q while there still is no file, want nothing", got)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := f.changed(); got != path {
		t.Errorf("changed = %q, want %q, which has come", got, path)
	}
}
