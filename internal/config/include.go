package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const wildcards = `*?[\`

// checkPattern is the rule of an element of include that can be told from it alone.
func checkPattern(s string) problem {
	dir, base := filepath.Split(s)
	_, err := filepath.Match(base, "")
	switch {
	case !strings.HasSuffix(base, ".toml"):
		return problem{show(s) + " does not end in .toml", "editors and package managers leave copies under other names"}
	case strings.ContainsAny(dir, wildcards):
		return problem{show(s) + " has a wildcard in a directory", "only the last part of a path may have one"}
	case err != nil:
		return problem{text: show(s) + " is not a valid pattern"}
	}
	return checkNoNUL(s)
}

// included are the files that include names, in its order and bytewise within a pattern, each
// once. It reports what it cannot read: of a table with a hole in it nothing may run.
//
// A pattern does not match names that begin with a dot, as in a shell: these are the lock and
// swap files of editors. filepath.Glob is of no use here, since it takes a directory that cannot
// be read for one that is empty.
func (l *loader) included(at place, main fs.FileInfo) []string {
	at = at.in("include")
	var files []string
	known := map[string]bool{}
	for _, pattern := range l.include {
		path := pattern
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(at.src.name), pattern)
		}
		dir, base := filepath.Split(path)
		matches := []string{path}
		if strings.ContainsAny(base, wildcards) {
			matches = nil
			names, err := l.files.list(cmp.Or(dir, "."))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				at.fault(problem{text: show(pattern) + " cannot be read: " + reason(err)})
				continue
			}
			for _, name := range names {
				if ok, _ := filepath.Match(base, name); ok && (name[0] != '.' || base[0] == '.') {
					matches = append(matches, filepath.Join(dir, name))
				}
			}
			if len(matches) == 0 {
				at.warn(problem{text: show(pattern) + " matches no file"})
			}
		}
		for _, file := range matches {
			info, err := l.files.stat(file)
			switch {
			case err != nil:
				at.fault(unreadable(file, err))
			case os.SameFile(info, main):
				at.fault(problem{show(pattern) + " includes this file itself", "keep the files of jobs in a directory of their own"})
			case !info.Mode().IsRegular():
				at.fault(problem{text: strconv.Quote(file) + " is not a regular file"})
			case !known[file]:
				known[file] = true
				files = append(files, file)
			}
		}
	}
	return files
}

// unreadable says why a file cannot be read. A dangling link is named as what it is: its own name
// is there for all to see, and "no such file" sends people the wrong way.
func unreadable(file string, err error) problem {
	if _, lerr := os.Lstat(file); lerr == nil && errors.Is(err, fs.ErrNotExist) {
		return problem{text: strconv.Quote(file) + " is a symbolic link to nothing"}
	}
	return problem{text: strconv.Quote(file) + " cannot be read: " + reason(err)}
}

// reason is what the operating system said, without the path, which the message has already.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
