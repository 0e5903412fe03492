//go:build linux

package jobs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A userDatabase is what this host knows of users and groups.
//
// Rota is built without a C library, so there is nothing in it that nsswitch.conf(5) could tell whom
// to ask. Its own reading knows the files; where that file names others, getent(1) asks them, with the
// C library that the host has. A host that has no getent has no others either.
type userDatabase struct {
	etc    string // "/etc"
	getent string // the program; "" if there is none
}

const defaultShell = "/bin/sh"

// A by is what an entry is looked for by.
type by int

const (
	byName by = iota
	byNumber
)

// The fields of passwd(5) and group(5) that are looked at.
const (
	passwdID, passwdGroup, passwdHome, passwdShell, passwdFields = 2, 3, 5, 6, 7
	groupID, groupMembers, groupFields                           = 2, 3, 4
)

// getentPatience is how long getent may take, whatever ctx says: a run that waits for it holds its lock.
const getentPatience = 15 * time.Second

// getent's exit code for a key that nothing is found for (getent(1)).
const getentNotFound = 2

// findGetent looks where the system has its programs, not in the daemon's own PATH.
func findGetent() string {
	for dir := range strings.SplitSeq(DefaultPath, ":") {
		if file := path.Join(dir, "getent"); unix.Access(file, unix.X_OK) == nil {
			return file
		}
	}
	return ""
}

// A userEntry is a line of passwd(5).
type userEntry struct {
	name, home, shell string
	uid, gid          uint32
}

func (db userDatabase) user(ctx context.Context, key string, how by) (e userEntry, found bool, err error) {
	fields, err := db.entry(ctx, "passwd", key, how)
	if err != nil || fields == nil {
		return userEntry{}, false, err
	}
	e.name, e.home, e.shell = fields[0], fields[passwdHome], loginShell(fields[passwdShell])
	if e.home == "" {
		e.home = "/"
	}
	e.uid, _ = accountNumber(fields[passwdID])
	e.gid, _ = accountNumber(fields[passwdGroup])
	return e, true, nil
}

// entry returns the fields of an entry, nil if there is none. Those that are numbers are.
func (db userDatabase) entry(ctx context.Context, database, key string, how by) (fields []string, err error) {
	at := 0
	if how == byNumber {
		at = passwdID // and groupID
	}
	err = db.scan(database, func(line []string) bool {
		if line[at] == key {
			fields = line
		}
		return fields == nil
	})
	if err != nil || fields != nil || db.sources(database) == filesOnly {
		return fields, err
	}
	// By a number only where one is asked for: getent takes whatever looks like one for one.
	if _, isNumber := accountNumber(key); isNumber && how == byName {
		return nil, nil
	}
	text, err := db.ask(ctx, database, key)
	if err != nil || text == "" {
		return nil, err
	}
	if fields = parseEntry(database, text); fields == nil {
		return nil, fmt.Errorf("getent %s: its answer is no entry", database)
	}
	return fields, nil
}

// groupsOf returns the groups that a user is in by the database, and its own, each once, as by
// getgrouplist(3).
func (db userDatabase) groupsOf(ctx context.Context, user string, own uint32) (groups []uint32, err error) {
	groups = []uint32{own}
	add := func(text string) {
		if gid, ok := accountNumber(text); ok && !slices.Contains(groups, gid) {
			groups = append(groups, gid)
		}
	}
	if db.sources("initgroups") != filesOnly {
		text, err := db.ask(ctx, "initgroups", user)
		if err == nil {
			// The name, then the groups.
			for gid := range strings.FieldsSeq(strings.TrimPrefix(text, user)) {
				add(gid)
			}
			return groups, nil
		}
		if !errors.Is(err, errNoDatabase) {
			return nil, err
		}
	}
	err = db.scan("group", func(line []string) bool {
		if slices.Contains(strings.Split(line[groupMembers], ","), user) {
			add(line[groupID])
		}
		return true
	})
	return groups, err
}

// scan calls each for the entries of a file, as long as it says so. A file that is not there has none.
func (db userDatabase) scan(database string, each func(fields []string) bool) error {
	f, err := os.Open(path.Join(db.etc, database))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if fields := parseEntry(database, line); fields != nil && !each(fields) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// parseEntry takes a line apart. It returns nil for what is none, as comments and the lines that stand
// for others (+ and - in passwd(5) of NIS).
func parseEntry(database, line string) []string {
	fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
	numbers, length := []int{passwdID, passwdGroup}, passwdFields
	if database == "group" {
		numbers, length = []int{groupID}, groupFields
	}
	if len(fields) != length || strings.Trim(line[:1], "#+-:") == "" {
		return nil
	}
	for _, i := range numbers {
		if _, ok := accountNumber(fields[i]); !ok {
			return nil
		}
	}
	return fields
}

// sources tell where else than in the files there are entries.
type sources int

const (
	filesOnly sources = iota
	onThisHost
	elsewhere
)

// sources reads nsswitch.conf(5). Without a line of its own, initgroups are those that group names.
func (db userDatabase) sources(database string) sources {
	text, err := os.ReadFile(path.Join(db.etc, "nsswitch.conf"))
	if err != nil || db.getent == "" {
		return filesOnly
	}
	named := map[string]sources{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		name, list, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		name = strings.TrimSpace(name)
		named[name] = filesOnly
		for source := range strings.FieldsSeq(list) {
			switch source {
			case "files", "[", "]":
			case "systemd", "compat", "db", "altfiles", "extrausers":
				named[name] = max(named[name], onThisHost)
			default:
				// In brackets is what follows from an answer, as [NOTFOUND=return].
				if !strings.Contains(source, "=") {
					named[name] = elsewhere
				}
			}
		}
	}
	if _, ok := named[database]; !ok && database == "initgroups" {
		database = "group"
	}
	return named[database]
}

// errNoDatabase: this getent knows nothing of that database.
var errNoDatabase = errors.New("getent does not know the database")

// ask returns what getent answers, in one line, "" if it finds nothing.
func (db userDatabase) ask(ctx context.Context, database, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, getentPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, db.getent, database, key)
	cmd.Env = []string{"PATH=" + DefaultPath, "LC_ALL=C"}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		switch exit.ExitCode() {
		case getentNotFound:
			return "", nil
		case 1:
			return "", fmt.Errorf("%w: %s", errNoDatabase, database)
		}
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("getent %s did not answer in time: %w", database, ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("getent %s: %w", database, err)
	}
	line, _, _ := bytes.Cut(out, []byte{'\n'})
	return string(line), nil
}
