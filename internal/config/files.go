package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// maxFileBytes is far above any table that a person keeps, and far below what hurts: a path
// like /dev/zero ends as an error.
const maxFileBytes = 4 << 20

const (
	// patience is how long one load waits for writers, all files together.
	patience = 2 * time.Second
	// poll is how often it looks whether they are done.
	poll = 20 * time.Millisecond
	// settle is how long a file must rest before it counts as whole, where no lease says so.
	settle = 500 * time.Millisecond
	// longAgo is how old a file must be to have rested already. File servers have clocks of their
	// own, hence more than settle.
	longAgo = time.Minute
)

// errWriting says that somebody has a file open for writing.
var errWriting = errors.New("config: open for writing")

// files is what one load sees of the file system: whole files, all of the same moment.
//
// Somebody may be half-way through writing a file. A lease, where the system gives one, tells
// exactly that, and keeps writers waiting for the time it takes to read; elsewhere a file counts
// as whole when it has rested for a while, which a writer who stops for longer deceives.
//
// Somebody may also be half-way from one file to the next, or put another directory in the place
// of this one, as ConfigMaps are updated. So everything that was seen is looked at again when the
// last file has been read: if nothing has changed in between, all of it was so at one moment
// (Y. Afek et al., "Atomic Snapshots of Shared Memory", J. ACM 40(4), 1993: a double collect).
//
// One load owns it, and uses it from its own goroutine.
type files struct {
	lease  func(*os.File) (release func(), err error)
	until  time.Time
	seen   []sight
	pipes  map[string]pipe
	gaveUp bool // a writer took too long, and that was said
}

// sight is something that was seen. Whoever looks again must see the same.
type sight struct {
	path  string
	info  fs.FileInfo // nil: nothing could be seen there
	names []string    // what a directory holds
	text  []byte      // of a file that may not be at rest
}

// pipe is what came from something that is no file. It comes once.
type pipe struct {
	text []byte
	info fs.FileInfo
}

func newFiles(lease func(*os.File) (func(), error)) *files {
	return &files{lease: lease, until: time.Now().Add(patience), pipes: map[string]pipe{}}
}

// read reads a file whole. It waits while somebody has it open for writing.
func (f *files) read(path string) ([]byte, fs.FileInfo, error) {
	for {
		text, info, err := f.try(path)
		if !errors.Is(err, errWriting) {
			return text, info, err
		}
		if !time.Now().Before(f.until) {
			f.gaveUp = true
			return nil, nil, tooLate(path, "open for writing")
		}
		time.Sleep(poll)
	}
}

// try is read without patience.
func (f *files) try(path string) ([]byte, fs.FileInfo, error) {
	if p, ok := f.pipes[path]; ok {
		return p.text, p.info, nil
	}
	file, err := os.Open(path)
	if err != nil {
		info, _ := os.Stat(path) // it may be there, and not to be read by this user
		f.seen = append(f.seen, sight{path: path, info: info})
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	leased := false
	if info.Mode().IsRegular() {
		release, err := f.lease(file)
		if errors.Is(err, errWriting) {
			return nil, nil, err
		}
		if leased = err == nil; leased {
			defer release()
			// What was written before the lease is in the file, and in this.
			if info, err = file.Stat(); err != nil {
				return nil, nil, err
			}
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxFileBytes {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("larger than " + showSize(maxFileBytes))}
	}
	if !info.Mode().IsRegular() {
		f.pipes[path] = pipe{text, info}
		return text, info, nil
	}
	s := sight{path: path, info: info}
	if !leased && time.Since(info.ModTime()) < longAgo {
		s.text = text
	}
	f.seen = append(f.seen, s)
	return text, info, nil
}

// stat is [os.Stat].
func (f *files) stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	f.seen = append(f.seen, sight{path: path, info: info})
	return info, err
}

// list names what a directory holds, bytewise sorted.
func (f *files) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	f.seen = append(f.seen, sight{path: dir, names: names})
	return names, err
}

// changed looks again at everything, and returns the first path at which there is something else
// now, or "".
func (f *files) changed() string {
	if slices.ContainsFunc(f.seen, func(s sight) bool { return s.text != nil }) {
		time.Sleep(settle)
	}
	again := newFiles(f.lease)
	for _, s := range f.seen {
		if s.names != nil {
			if names, _ := again.list(s.path); !slices.Equal(names, s.names) {
				return s.path
			}
			continue
		}
		info, _ := os.Stat(s.path)
		if (info == nil) != (s.info == nil) || info != nil && !same(info, s.info) {
			return s.path
		}
		if s.text != nil {
			if text, _, err := again.try(s.path); err != nil || !bytes.Equal(text, s.text) {
				return s.path
			}
		}
	}
	return ""
}

// same tells whether a file is the same one and nobody has written to it. A directory and a device
// are only what they are: what goes on in them is seen otherwise.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Mode() == b.Mode() &&
		(!a.Mode().IsRegular() || a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
}

// tooLate is the error of a file that a writer did not finish.
func tooLate(path, how string) error {
	return &fs.PathError{Op: "read", Path: path, Err: errors.New("still " + how + " after " + short(patience))}
}
