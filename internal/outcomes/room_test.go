package outcomes

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fileOf is the path of a run's file.
func (r *rig) fileOf(run string) string {
	r.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "*-"+run+ending))
	if err != nil || len(found) != 1 {
		r.Fatalf("the files of %s are %q, %v, want one", run, found, err)
	}
	return found[0]
}

// Somebody has removed or changed what is kept, and the folder is full: it makes room all the same, and
// loses nothing else.
func TestStore_MakesRoomBesideWhatSomebodyChanged(t *testing.T) {
	replace := func(r *rig, file string, data []byte) {
		r.Helper()
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, data, 0o600)); err != nil {
			r.Fatal(err)
		}
	}
	folder := func(r *rig, file string) {
		r.Helper()
		if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "something"), 0o700)); err != nil {
			r.Fatal(err)
		}
	}
	const without = 10 // bytes of output that are not worth dropping
	for _, c := range []struct {
		name   string
		output int // bytes of each run
		change func(r *rig, file string)
		files  string // afterwards
		said   string
	}{
		{"removed", 3000, func(r *rig, file string) { replace(r, file, nil); _ = os.Remove(file) }, "B.json C.json", "kept outcome gone"},
		{"emptied", 3000, func(r *rig, file string) { replace(r, file, nil) }, "A.json.bad B.json C.json", "kept outcome unreadable"},
		{"half of it", 3000, func(r *rig, file string) { replace(r, file, []byte(`{"v":1`)) }, "A.json.bad B.json C.json", "kept outcome unreadable"},
		{"a folder in its place", 3000, folder, "A.json.bad B.json C.json", "kept outcome unreadable"},
		{"a link in its place: the disk does not give it out", 3000, func(r *rig, file string) {
			if err := errors.Join(os.Remove(file), os.Symlink("/etc/passwd", file)); err != nil {
				r.Fatal(err)
			}
		}, "A.json B.json C.json", "output of a kept outcome dropped"},
		{"removed, without output", without, func(_ *rig, file string) { _ = os.Remove(file) }, "B.json C.json", "kept outcome dropped"},
		{"a folder in its place, without output", without, folder, "A.json.bad B.json C.json", "kept outcome unreadable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			s := r.open(func(o *Options) {
				if o.MaxBytes = 11_000; c.output == without { // two with their outputs
					o.MaxCount = 2
				}
			})
			drop := r.keep(s, "A", c.output)
			r.keep(s, "B", c.output)
			c.change(r, r.fileOf("A"))
			r.keep(s, "C", c.output)
			if got := r.files(); got != c.files {
				t.Errorf("the folder holds %q, want %q", got, c.files)
			}
			if r.said("level=WARN") != 1 || r.said(`msg="`+c.said) != 1 {
				t.Errorf("log %s\nwant %q once, and nothing else", r.log.String(), c.said)
			}
			if err := drop(); err != nil {
				t.Errorf("drop of what is gone = %v, want nil", err)
			}
			for _, run := range []string{"D", "E", "F"} {
				r.keep(s, run, c.output)
			}
			if s.bytes > 11_000 || c.output == without && len(s.entries) > 2 {
				t.Errorf("the store has %d outcomes of %d bytes, want it bounded", len(s.entries), s.bytes)
			}
		})
	}
}

// What a newer version or another namespace left is not this daemon's to drop, however full the folder
// is, and takes no room from what is.
func TestStore_LeavesOthersAlone(t *testing.T) {
	other := sample()
	other.namespace = "staging"
	foreign, err := encode(other)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	others := map[string][]byte{
		"000000000001-F.json": foreign,
		"000000000002-N.json": []byte(`{"v":2,"output":"` + strings.Repeat("x", 5000) + `"}`),
	}
	for name, data := range others {
		r.put(name, data)
	}
	bounds := func(o *Options) { o.MaxBytes, o.MaxCount = 6_000, 3 }
	s := r.open(bounds)
	for _, run := range []string{"A", "B", "C", "D", "E"} {
		r.keep(s, run, 2000)
	}
	for name, data := range others {
		if got, err := os.ReadFile(filepath.Join(r.dir, name)); err != nil || string(got) != string(data) {
			t.Errorf("%s holds %.20q, %v, want it untouched", name, got, err)
		}
	}
	if got := r.left(bounds); !strings.HasSuffix(got, "D:76 E:2000") {
		t.Errorf("Left() = %s, want as many as there would be without the others", got)
	}
}

// asNobody calls f in a thread that may do no more than an unprivileged user (setfsuid(2): the
// capabilities that pass over permissions go with it).
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Setfsuid(65534)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// The folder cannot be synced: what is to be kept is not, and says so; what is there stays.
func TestStore_KeepsWhatItHasWhenTheFolderIsNotSynced(t *testing.T) {
	r := newRig(t)
	bounds := func(o *Options) { o.MaxBytes = 11_000 }
	s := r.open(bounds)
	r.keep(s, "A", 3000)
	r.keep(s, "B", 3000)
	if err := os.Chmod(filepath.Dir(filepath.Dir(r.dir)), 0o711); err != nil { // the test's own is its user's
		t.Fatal(err)
	}
	for _, path := range []string{r.dir, r.fileOf("A"), r.fileOf("B")} {
		if os.Getuid() == 0 {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(r.dir, 0o300); err != nil { // it cannot be opened, and its files can be
		t.Fatal(err)
	}
	o := sample()
	o.ending.Output = make([]byte, 3000)
	var err error
	asNobody(t, func() { _, err = s.Keep(&o.grant, &o.ending) })
	if !errors.Is(err, syscall.EACCES) {
		t.Errorf("Keep in a folder that cannot be opened = %v, want EACCES", err)
	}
	if err := os.Chmod(r.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := r.left(bounds); got != "A:76 B:3000" && got != "A:3000 B:3000" {
		t.Errorf("Left() = %q, want A and B", got)
	}
	r.checkSize(s)
}
