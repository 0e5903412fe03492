package outcomes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// rig is a folder and the log of whoever opens it.
type rig struct {
	*testing.T
	dir string
	log bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{T: t, dir: filepath.Join(t.TempDir(), "outcomes")}
}

// open is a daemon's start.
func (r *rig) open(change ...func(*Options)) *Store {
	r.Helper()
	opt := Options{Dir: r.dir, Namespace: "rota", Logger: slog.New(slog.NewTextHandler(&r.log, nil))}
	for _, c := range change {
		c(&opt)
	}
	return Open(opt)
}

// keep keeps an outcome of a run with that id and so many bytes of output.
func (r *rig) keep(s *Store, run string, output int) (drop func() error) {
	r.Helper()
	o := sample()
	o.grant.Claim.Run, o.ending.Output = run, bytes.Repeat([]byte("x"), output)
	drop, err := s.Keep(&o.grant, &o.ending)
	if err != nil {
		r.Fatalf("Keep(%s): %v", run, err)
	}
	return drop
}

// left are the runs that a daemon which is started now finds, each with its bytes of output.
func (r *rig) left(change ...func(*Options)) string {
	r.Helper()
	var all []string
	for _, o := range r.open(change...).Left() {
		all = append(all, fmt.Sprintf("%s:%d", o.Grant.Claim.Run, len(o.Ending.Output)))
	}
	return strings.Join(all, " ")
}

// files are the names in the folder, without their numbers.
func (r *rig) files() string {
	r.Helper()
	found, err := os.ReadDir(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	var names []string
	for _, f := range found {
		_, name, _ := strings.Cut(f.Name(), "-")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// put writes a file into the folder as somebody else might.
func (r *rig) put(name string, data []byte) {
	r.Helper()
	if err := errors.Join(os.MkdirAll(r.dir, 0o700), os.WriteFile(filepath.Join(r.dir, name), data, 0o600)); err != nil {
		r.Fatal(err)
	}
}

// checkSize holds that a store knows how much is in its folder.
func (r *rig) checkSize(s *Store) {
	r.Helper()
	found, err := os.ReadDir(r.dir)
	size := int64(0)
	for _, f := range found {
		st, e := f.Info()
		if err = errors.Join(err, e); e == nil {
			size += st.Size()
		}
	}
	if err != nil || len(found) != len(s.entries) || size != s.bytes {
		r.Errorf("the store has %d outcomes of %d bytes, the folder %d files of %d, %v", len(s.entries), s.bytes, len(found), size, err)
	}
}

func (r *rig) said(text string) int { return strings.Count(r.log.String(), text) }

func TestStore_OutlivesItsDaemon(t *testing.T) {
	r := newRig(t)
	s := r.open()
	if left := s.Left(); len(left) != 0 || r.log.Len() > 0 {
		t.Errorf("Left() of no folder = %v, log %q, want neither", left, r.log.String())
	}
	var drops []func() error
	for i := range 12 { // ids that sort otherwise than they came
		drops = append(drops, r.keep(s, string(rune('Z'-i)), i))
	}
	if err := errors.Join(drops[2](), drops[7](), drops[7]()); err != nil {
		t.Errorf("drop = %v, want nil, the second time too", err)
	}
	r.checkSize(s)
	if got, want := r.left(), "Z:0 Y:1 W:3 V:4 U:5 T:6 R:8 Q:9 P:10 O:11"; got != want {
		t.Errorf("Left() = %s, want %s: in the order in which they came", got, want)
	}
	next := r.open()
	left := next.Left()
	if again := next.Left(); again != nil {
		t.Errorf("Left() for the second time = %v, want nil", again)
	}
	r.keep(next, "A", 1)
	for _, o := range left[1:] {
		if err := o.Drop(); err != nil {
			t.Error(err)
		}
	}
	if got := r.left(); got != "Z:0 A:1" {
		t.Errorf("Left() = %s, want what was not dropped, and the new one behind it", got)
	}
}

// What jobs print, and the token of a lease, are nobody's but the daemon's, whatever its umask.
func TestStore_FilesArePrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	r := newRig(t)
	r.keep(r.open(), "A", 1)
	found, err := os.ReadDir(r.dir)
	if err != nil || len(found) != 1 {
		t.Fatalf("the folder holds %v, %v, want one file", found, err)
	}
	for path, want := range map[string]fs.FileMode{r.dir: fs.ModeDir | 0o700, filepath.Join(r.dir, found[0].Name()): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, st.Mode(), err, want)
		}
	}
}

func TestStore_BoundsItsFolder(t *testing.T) {
	t.Run("in number: the oldest go", func(t *testing.T) {
		r := newRig(t)
		three := func(o *Options) { o.MaxCount = 3 }
		s := r.open(three)
		var drops []func() error
		for _, run := range []string{"A", "B", "C", "D", "E"} {
			drops = append(drops, r.keep(s, run, 1))
		}
		if got := r.left(three); got != "C:1 D:1 E:1" || r.said("msg=\"kept outcome dropped") != 2 || r.said("run=A") != 1 {
			t.Errorf("Left() = %s, log %s\nwant the newest three, and A and B said", got, r.log.String())
		}
		if err := errors.Join(drops[0](), drops[1]()); err != nil {
			t.Errorf("drop of what is gone = %v, want nil", err)
		}
		s = r.open(three) // what an earlier daemon kept counts
		r.keep(s, "F", 1)
		if got := r.left(three); got != "D:1 E:1 F:1" {
			t.Errorf("Left() = %s, want D, E and F", got)
		}
	})
	t.Run("in bytes: outputs go first", func(t *testing.T) {
		r := newRig(t)
		bytes := func(o *Options) { o.MaxBytes = 10_000 }
		for _, run := range []string{"A", "B", "C", "D", "E"} {
			r.keep(r.open(bytes), run, 3000) // 4,000 in base64, and some 600
		}
		var left []string
		for _, o := range r.open(bytes).Left() {
			left = append(left, o.Grant.Claim.Run+":"+string(o.Ending.Output))
		}
		const note = "[... 3000 bytes left out: too much had to be kept while redis was away ...]\n"
		want := []string{"A:" + note, "B:" + note, "C:" + note, "D:" + note, "E:" + strings.Repeat("x", 3000)}
		if !slices.Equal(left, want) || r.said("output of a kept outcome dropped") != 4 || r.said("msg=\"kept") != 0 {
			t.Errorf("Left() = %.400q, want the outputs of A to D gone\n%s", left, r.log.String())
		}
		r.log.Reset()
		s := r.open(bytes)
		for i := range 30 { // then the outcomes themselves
			r.keep(s, fmt.Sprint(i), 0)
		}
		if r.said("msg=\"output of") != 1 || r.said("msg=\"kept outcome dropped") < 10 {
			t.Errorf("log %s\nwant the output of E dropped, and then the oldest", r.log.String())
		}
		r.checkSize(s)
		if s.bytes > 10_000 || s.bytes < 9_000 {
			t.Errorf("the folder has %d bytes, want just under 10,000", s.bytes)
		}
		if got := r.left(bytes); !strings.HasSuffix(got, " 28:0 29:0") || strings.Contains(got, "A:") {
			t.Errorf("Left() = %s, want the newest", got)
		}
	})
	t.Run("one that never fits", func(t *testing.T) {
		r := newRig(t)
		s := r.open(func(o *Options) { o.MaxBytes = 2000 })
		r.keep(s, "A", 1)
		o := sample()
		o.ending.Output = make([]byte, 3000)
		if _, err := s.Keep(&o.grant, &o.ending); err == nil || r.left() != "A:1" {
			t.Errorf("Keep = %v, Left() = %s, want an error, and the other untouched", err, r.left())
		}
		o.ending.Output = make([]byte, maxFile)
		if _, err := r.open().Keep(&o.grant, &o.ending); err == nil {
			t.Error("Keep of more than a file may have = nil, want an error")
		}
	})
}

// Whatever lies in the folder, a daemon starts, delivers what can be read and says what cannot.
func TestOpen_WhateverIsThere(t *testing.T) {
	whole, err := encode(sample())
	if err != nil {
		t.Fatal(err)
	}
	other := sample()
	other.namespace = "staging"
	foreign, err := encode(other)
	if err != nil {
		t.Fatal(err)
	}
	const name = "000000000007-X.json"
	const run = "01KB6XFYG8R3M0Q2V5T7W9XZAB:21"
	for _, tc := range []struct {
		name  string
		put   func(r *rig)
		left  string // runs that are delivered
		files string // afterwards
		said  string // in one line of the log; "": nothing is
	}{
		{"an outcome", func(r *rig) { r.put(name, whole) }, run, "X.json", ""},
		{"half of one", func(r *rig) { r.put(name, whole[:300]) }, "", "X.json.bad", "kept outcome unreadable"},
		{"an empty file", func(r *rig) { r.put(name, nil) }, "", "X.json.bad", "kept outcome unreadable"},
		{"zeros", func(r *rig) { r.put(name, make([]byte, 700)) }, "", "X.json.bad", "kept outcome unreadable"},
		{"one too large", func(r *rig) { r.put(name, make([]byte, maxFile+2)) }, "", "X.json.bad", "larger than"},
		{"half of one, not renamed", func(r *rig) { r.put(name+".tmp", whole[:300]) }, "", "X.json.bad", "kept outcome unreadable"},
		{"a whole one, not renamed", func(r *rig) { r.put(name+".tmp", whole) }, run, "X.json", ""},
		{"one to replace another", func(r *rig) { r.put(name, whole); r.put(name+".tmp", whole[:9]) }, run, "X.json", ""},
		{"one set aside", func(r *rig) { r.put(name+".bad", whole[:9]) }, "", "X.json.bad", ""},
		{"one of a newer version", func(r *rig) { r.put(name, []byte(`{"v":2}`)) }, "", "X.json", "newer version"},
		{"one of another namespace", func(r *rig) { r.put(name, foreign) }, "", "X.json", "another namespace"},
		{"something else", func(r *rig) { r.put("0-README", whole) }, "", "README", ""},
		{"a folder", func(r *rig) {
			if err := os.MkdirAll(filepath.Join(r.dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "", "X.json.bad", "kept outcome unreadable"},
		{"a pipe without a writer", func(r *rig) {
			r.put("0-README", nil)
			if err := syscall.Mkfifo(filepath.Join(r.dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", "README X.json.bad", "no regular file"},
		{"a link", func(r *rig) {
			r.put("0-README", whole)
			if err := os.Symlink("0-README", filepath.Join(r.dir, name)); err != nil {
				t.Fatal(err)
			}
		}, "", "README X.json", "left alone"},
		{"a file in its place", func(r *rig) {
			if err := os.WriteFile(r.dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "", "-", "kept outcomes not read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			tc.put(r)
			if got := r.left(); got != tc.left {
				t.Errorf("Left() = %q, want %q", got, tc.left)
			}
			if tc.files != "-" && r.files() != tc.files {
				t.Errorf("the folder holds %q, want %q", r.files(), tc.files)
			}
			if n := r.said("\n"); n > 1 || (n == 0) != (tc.said == "") || !strings.Contains(r.log.String(), tc.said) {
				t.Errorf("log %q, want one line with %q", r.log.String(), tc.said)
			}
			if tc.files != "-" {
				r.keep(r.open(), "next", 1)
				if got := r.left(); !strings.HasSuffix(got, "next:1") {
					t.Errorf("Left() = %q, want a new outcome last", got)
				}
			}
		})
	}
}

// Of what is set aside the newest stay; the outcomes that can be read are not touched.
func TestOpen_KeepsFewUnreadable(t *testing.T) {
	r := newRig(t)
	for i := range maxBad + 5 {
		r.put(fmt.Sprintf("%012d-X%02d.json", i, i), []byte("{"))
	}
	r.keep(r.open(), "A", 1)
	if got := r.files(); strings.Count(got, ".bad") != maxBad || strings.Contains(got, "X04") || !strings.Contains(got, "X05.json.bad") {
		t.Errorf("the folder holds %s, want the newest %d set aside", got, maxBad)
	}
	if got := r.left(); got != "A:1" {
		t.Errorf("Left() = %s, want A", got)
	}
}

// The folder is where it should be or it is not: either way the error says which, has one text for
// every outcome, and is over as soon as the fault is.
func TestStore_FolderThatCannotBeWritten(t *testing.T) {
	r := newRig(t)
	if err := os.WriteFile(r.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := r.open()
	var texts []string
	for _, run := range []string{"A", "B"} {
		o := sample()
		o.grant.Claim.Run = run
		_, err := s.Keep(&o.grant, &o.ending)
		if !errors.Is(err, syscall.ENOTDIR) {
			t.Fatalf("Keep(%s) under a file = %v, want ENOTDIR", run, err)
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], r.dir) {
		t.Errorf("errors %q, want one text, with the folder", texts)
	}
	if err := os.Remove(r.dir); err != nil {
		t.Fatal(err)
	}
	drop := r.keep(s, "C", 1)
	if got := r.left(); got != "C:1" {
		t.Errorf("Left() = %s once the folder can be made, want C", got)
	}
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	if err := drop(); err != nil {
		t.Errorf("drop of a file that somebody removed = %v, want nil", err)
	}
	r.keep(s, "D", 1)
	texts = nil
	for i, run := range []string{"E", "F"} { // now it is the file itself
		if err := os.Mkdir(filepath.Join(r.dir, fmt.Sprintf("%012d-%s.json.tmp", s.next+int64(i), run)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []string{"E", "F"} {
		o := sample()
		o.grant.Claim.Run = run
		_, err := s.Keep(&o.grant, &o.ending)
		if !errors.Is(err, syscall.EISDIR) {
			t.Fatalf("Keep(%s) with a folder in its place = %v, want EISDIR", run, err)
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] {
		t.Errorf("errors %q, want one text", texts)
	}
	if got := r.left(); got != "D:1" {
		t.Errorf("Left() = %s after the folder was removed, want it made again", got)
	}
}

func TestStore_ConcurrentUse(t *testing.T) {
	r := newRig(t)
	s := r.open(func(o *Options) { o.MaxBytes = 40_000 })
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			o := sample()
			o.grant.Claim.Run, o.ending.Output = fmt.Sprint(i), make([]byte, 2000)
			drop, err := s.Keep(&o.grant, &o.ending)
			if err == nil && i%2 == 0 {
				err = drop()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := strings.Count(r.left(), ":"); n != 20 || len(s.entries) != 20 {
		t.Errorf("%d outcomes on disk, %d in the store, want 20", n, len(s.entries))
	}
}

// What one outcome costs: two fsyncs.
func BenchmarkStore_Keep(b *testing.B) {
	s := Open(Options{Dir: filepath.Join(b.TempDir(), "outcomes"), Namespace: "rota"})
	o := sample()
	o.ending.Output = make([]byte, 16<<10)
	for b.Loop() {
		drop, err := s.Keep(&o.grant, &o.ending)
		if err == nil {
			err = drop()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
