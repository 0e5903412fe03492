//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// An Account is whom a program runs as, as the user database of this host has it (passwd(5),
// group(5)).
type Account struct {
	Name     string // "" if there is no entry for UID: nobody has to have one
	UID, GID uint32
	Groups   []uint32 // the supplementary ones (credentials(7))
	Home     string   // "/" without an entry
	Shell    string   // that it logs in with; "/bin/sh" if it has none that runs anything
}

// UnknownError says that the user database has no such user or group.
type UnknownError struct {
	Kind string // "user" or "group"
	Name string

	// Elsewhere tells that others than this host were asked too, a directory service for one
	// (nsswitch.conf(5)). They do not tell an entry that is not there from a server that does not
	// answer, so it may be there later.
	Elsewhere bool
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("no such %s on this host: %q", e.Kind, e.Name)
	if _, isNumber := accountNumber(e.Name); isNumber {
		text += "; a number without an entry has no group, so one must be named"
	}
	if e.Elsewhere {
		text += "; or the directory service that /etc/nsswitch.conf names does not answer"
	}
	return text
}

// LookupAccount finds an account. A user is named by a name or else by a number, and so is a group, as
// chown(1) has it. A group that is named takes the place of the user's own; the supplementary groups are
// those that the database has the user in, as by initgroups(3). With an empty user it is the account of
// this process, with the groups that it has now.
//
// What the files of this host do not tell, getent(1) is asked, which asks everything that
// nsswitch.conf(5) names: a directory service, for one. That may take long; ctx bounds it.
//
// The error is an [*UnknownError], or says why nobody knows.
func LookupAccount(ctx context.Context, user, group string) (*Account, error) {
	return userDatabase{etc: "/etc", getent: findGetent()}.lookup(ctx, user, group)
}

func (db userDatabase) lookup(ctx context.Context, user, group string) (*Account, error) {
	for _, named := range []struct{ kind, name string }{{"user", user}, {"group", group}} {
		if named.name == "" {
			continue
		}
		if err := CheckAccountName(named.name); err != nil {
			return nil, fmt.Errorf("%s %q %w", named.kind, named.name, err)
		}
	}
	a := &Account{Home: "/", Shell: defaultShell}
	var err error
	if user == "" {
		err = db.own(ctx, a)
	} else {
		err = db.named(ctx, a, user, group != "")
	}
	if err != nil {
		return nil, err
	}
	if group != "" {
		if a.GID, err = db.group(ctx, group); err != nil {
			return nil, err
		}
	}
	if user != "" && a.Name != "" {
		if a.Groups, err = db.groupsOf(ctx, a.Name, a.GID); err != nil {
			return nil, fmt.Errorf("groups of user %q: %w", user, err)
		}
	}
	return a, nil
}

// own fills in the account of this process.
func (db userDatabase) own(ctx context.Context, a *Account) error {
	a.UID, a.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		a.Groups = append(a.Groups, uint32(g))
	}
	// Who it is called and where it lives is good to know, and no reason not to run.
	if e, found, err := db.user(ctx, strconv.Itoa(os.Geteuid()), byNumber); err == nil && found {
		a.Name, a.Home, a.Shell = e.name, e.home, e.shell
	}
	return nil
}

// named fills in the account of a user, but for the groups.
func (db userDatabase) named(ctx context.Context, a *Account, user string, hasGroup bool) error {
	e, found, err := db.user(ctx, user, byName)
	number, isNumber := accountNumber(user)
	if err == nil && !found && isNumber {
		e, found, err = db.user(ctx, strconv.FormatUint(uint64(number), 10), byNumber)
	}
	switch {
	case err != nil:
		return fmt.Errorf("user %q: %w", user, err)
	case found:
		a.Name, a.UID, a.GID, a.Home, a.Shell = e.name, e.uid, e.gid, e.home, e.shell
	case !isNumber || !hasGroup:
		return &UnknownError{"user", user, db.sources("passwd") == elsewhere}
	default:
		a.UID = number
	}
	return nil
}

// group returns the number of a group.
func (db userDatabase) group(ctx context.Context, group string) (gid uint32, err error) {
	fields, err := db.entry(ctx, "group", group, byName)
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", group, err)
	}
	if fields != nil {
		number, _ := accountNumber(fields[groupID])
		return number, nil
	}
	number, isNumber := accountNumber(group)
	if !isNumber {
		return 0, &UnknownError{"group", group, db.sources("group") == elsewhere}
	}
	return number, nil
}

// accountNumber reads the number of a user or a group. The greatest is none: to setresuid(2) and
// its like it means no change.
func accountNumber(s string) (number uint32, ok bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n < 1<<32-1
}

// CheckAccountName tells what keeps a text from being the name, or the number, of a user or a group; nil
// if nothing does. It is what systemd takes, which is more than useradd(8) does (systemd's "User/Group
// Name Syntax", relaxed): names of directory services have other characters.
func CheckAccountName(s string) error {
	switch {
	case s == "":
		return errors.New("is empty")
	case len(s) > 256:
		return fmt.Errorf("has %d characters, the most is 256", len(s))
	case s[0] == '-' || s[0] == '+' || s == "." || s == ".." || s[0] == ' ' || s[len(s)-1] == ' ':
		return errors.New("does not begin or end as a name does")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == ':' || r == '/' || r == ',' || r == 0xfffd {
			return fmt.Errorf("holds %q, which no name does", r)
		}
	}
	if _, isNumber := accountNumber(s); !isNumber && strings.Trim(s, "0123456789") == "" {
		return errors.New("is no number that a user or a group can have")
	}
	return nil
}

// loginShell is what SHELL says of an account. One that cannot log in has a program there that runs
// nothing (nologin(8)), which must not get to programs that run others by it, as ssh(1) does its
// ProxyCommand.
func loginShell(shell string) string {
	switch path.Base(shell) {
	case ".", "nologin", "false", "true", "sync", "halt", "shutdown":
		return defaultShell
	}
	return shell
}
