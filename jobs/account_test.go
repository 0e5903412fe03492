//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	testPasswd = `root:x:0:0:root:/root:/bin/bash
# a comment:x:7:7:::
+@nis:x:8:8:::
report:x:990:991:Reports,,,:/srv/report:/usr/sbin/nologin
1000:x:1234:991::/srv/number:
bad:x:none:991::/:/bin/sh
cut:x:77
noshell:x:992:991:::
`
	testGroup = `root:x:0:
report:x:991:
adm:x:4:other,report
backup:x:34:report,report
twice:x:4:report
close:x:99:reporter,areport
`
)

// testDatabase is one of files, and of a getent if there is a script for it.
func testDatabase(t *testing.T, nsswitch, getent string) userDatabase {
	t.Helper()
	db := userDatabase{etc: t.TempDir()}
	for name, text := range map[string]string{"passwd": testPasswd, "group": testGroup, "nsswitch.conf": nsswitch} {
		if err := os.WriteFile(filepath.Join(db.etc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if getent != "" {
		db.getent = writeFile(t, "getent", "#!/bin/sh\n"+getent, 0o755)
	}
	return db
}

func TestUserDatabase_Files(t *testing.T) {
	// getent must not be asked: it would answer something else.
	db := testDatabase(t, "passwd: files\ngroup: files # others\nhosts: dns\n", "echo x:x:1:1::/wrong:\n")
	for _, c := range []struct {
		name, user, group string
		want              Account
	}{
		{
			"by name, in its groups, each once", "report", "",
			Account{"report", 990, 991, []uint32{991, 4, 34}, "/srv/report", "/bin/sh"},
		},
		{
			"another group takes the place of its own", "report", "adm",
			Account{"report", 990, 4, []uint32{4, 34}, "/srv/report", "/bin/sh"},
		},
		{
			"a group by number", "report", "4711",
			Account{"report", 990, 4711, []uint32{4711, 4, 34}, "/srv/report", "/bin/sh"},
		},
		{"root", "root", "", Account{"root", 0, 0, []uint32{0}, "/root", "/bin/bash"}},
		{"by number", "990", "", Account{"report", 990, 991, []uint32{991, 4, 34}, "/srv/report", "/bin/sh"}},
		{
			"a name that looks like a number comes first", "1000", "",
			Account{"1000", 1234, 991, []uint32{991}, "/srv/number", "/bin/sh"},
		},
		{"a number without an entry", "4711", "adm", Account{"", 4711, 4, nil, "/", "/bin/sh"}},
		{"neither home nor shell", "noshell", "", Account{"noshell", 992, 991, []uint32{991}, "/", "/bin/sh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := db.lookup(t.Context(), c.user, c.group)
			if err != nil || !reflect.DeepEqual(*got, c.want) {
				t.Errorf("lookup(%q, %q) = %+v, %v, want %+v", c.user, c.group, got, err, c.want)
			}
		})
	}
	for _, c := range []struct{ user, group, want string }{
		{"raport", "", `no such user on this host: "raport"`},
		{"bad", "", `no such user on this host: "bad"`},
		{"cut", "", `no such user on this host: "cut"`},
		{"report", "admin", `no such group on this host: "admin"`},
		{"", "admin", `no such group on this host: "admin"`},
		{"4711", "", `no such user on this host: "4711"; a number without an entry has no group, so one must be named`},
		{"-x", "", `user "-x" does not begin or end as a name does`},
		{"report", "a:b", `group "a:b" holds ':', which no name does`},
		{"4294967295", "", `user "4294967295" is no number that a user or a group can have`},
		{"99999999999", "adm", `user "99999999999" is no number that a user or a group can have`},
	} {
		if got, err := db.lookup(t.Context(), c.user, c.group); err == nil || err.Error() != c.want {
			t.Errorf("lookup(%q, %q) = %+v, %v, want %s", c.user, c.group, got, err, c.want)
		}
	}
}

// What nsswitch.conf names besides files is asked by way of getent: for users that the files do not
// know, and for the groups of every user.
func TestUserDatabase_Getent(t *testing.T) {
	const nsswitch = "passwd: files [NOTFOUND=continue] sss\ngroup:\tfiles ldap\n"
	const script = `case "$1 $2" in
"passwd alice") echo "alice:*:20001:20000:Alice:/home/alice:/bin/zsh" ;;
"passwd 20001") echo "alice:*:20001:20000:Alice:/home/alice:/bin/zsh" ;;
"group staff") echo "staff:*:20002:alice" ;;
"initgroups alice") echo "alice                 20002 4" ;;
"initgroups report") echo "report                20003" ;;
*) exit 2 ;;
esac
`
	db := testDatabase(t, nsswitch, script)
	alice := Account{"alice", 20001, 20000, []uint32{20000, 20002, 4}, "/home/alice", "/bin/zsh"}
	for _, c := range []struct {
		user, group string
		want        Account
	}{
		{"alice", "", alice},
		{"20001", "", alice},
		{"alice", "staff", Account{"alice", 20001, 20002, []uint32{20002, 4}, "/home/alice", "/bin/zsh"}},
		{"report", "", Account{"report", 990, 991, []uint32{991, 20003}, "/srv/report", "/bin/sh"}},
		{"4711", "adm", Account{"", 4711, 4, nil, "/", "/bin/sh"}},
	} {
		got, err := db.lookup(t.Context(), c.user, c.group)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("lookup(%q, %q) = %+v, %v, want %+v", c.user, c.group, got, err, c.want)
		}
	}
	_, err := db.lookup(t.Context(), "bob", "")
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || !unknown.Elsewhere || unknown.Kind != "user" {
		t.Errorf("lookup of nobody's name = %v, want an UnknownError of a user that may be elsewhere", err)
	}
	t.Run("one without initgroups", func(t *testing.T) { // as that of musl
		db := testDatabase(t, nsswitch, "exit 1\n")
		if got, err := db.lookup(t.Context(), "report", ""); err != nil || !slices.Equal(got.Groups, []uint32{991, 4, 34}) {
			t.Errorf("lookup = %+v, %v, want the groups of the file", got, err)
		}
	})
	t.Run("one that does not answer", func(t *testing.T) {
		db := testDatabase(t, nsswitch, "exec sleep 300\n")
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if got, err := db.lookup(ctx, "alice", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lookup = %+v, %v, want the deadline's error", got, err)
		}
	})
	t.Run("none at all", func(t *testing.T) {
		db := testDatabase(t, nsswitch, "")
		_, err := db.lookup(t.Context(), "alice", "")
		if unknown, ok := errors.AsType[*UnknownError](err); !ok || unknown.Elsewhere {
			t.Errorf("lookup = %v, want an UnknownError of one that is nowhere", err)
		}
	})
	t.Run("who has to be asked", func(t *testing.T) {
		for nsswitch, want := range map[string]sources{
			"group: files\ninitgroups: files sss\n":   elsewhere,
			"group: files sss\ninitgroups: files\n":   filesOnly,
			"group: files [!UNAVAIL=return]\n":        filesOnly,
			"group: files [ NOTFOUND=return ] sss\n":  elsewhere,
			"group: files [SUCCESS=merge] systemd\n":  onThisHost,
			"group: sss files systemd\n":              elsewhere,
			"#group: files sss\ngroup: files # sss\n": filesOnly,
			"": filesOnly,
		} {
			if got := testDatabase(t, nsswitch, "exit 2\n").sources("initgroups"); got != want {
				t.Errorf("%q: sources of groups: %d, want %d", nsswitch, got, want)
			}
		}
		_, err := testDatabase(t, "passwd: files systemd\n", "exit 2\n").lookup(t.Context(), "bob", "")
		if unknown, ok := errors.AsType[*UnknownError](err); !ok || unknown.Elsewhere {
			t.Errorf("lookup on a host that is asked alone = %v, want an UnknownError of one that is nowhere", err)
		}
	})
}

// The oracle is id(1), which asks the C library (getgrouplist(3)), for every user of this machine.
func TestLookupAccount_AsIDHasIt(t *testing.T) {
	names, err := exec.CommandContext(t.Context(), "cut", "-d:", "-f1", "/etc/passwd").Output()
	if err != nil {
		t.Fatal(err)
	}
	id := func(flag, user string) string {
		out, err := exec.CommandContext(t.Context(), "id", flag, user).Output()
		if err != nil {
			t.Fatalf("id %s %s: %v", flag, user, err)
		}
		numbers := strings.Fields(string(out))
		slices.Sort(numbers)
		return strings.Join(numbers, " ")
	}
	for user := range strings.FieldsSeq(string(names)) {
		a, err := LookupAccount(t.Context(), user, "")
		if err != nil {
			t.Errorf("LookupAccount(%q) = %v", user, err)
			continue
		}
		groups := strings.Fields(strings.Trim(fmt.Sprint(a.Groups), "[]"))
		slices.Sort(groups)
		got := fmt.Sprintf("%d, %d, %s", a.UID, a.GID, strings.Join(groups, " "))
		if want := id("-u", user) + ", " + id("-g", user) + ", " + id("-G", user); got != want {
			t.Errorf("LookupAccount(%q) = %s, want %s", user, got, want)
		}
	}
}

func TestLookupAccount_Own(t *testing.T) {
	a, err := LookupAccount(t.Context(), "", "")
	if err != nil || int(a.UID) != os.Geteuid() || int(a.GID) != os.Getegid() || a.Home == "" || a.Shell == "" {
		t.Errorf("LookupAccount of nobody = %+v, %v, want that of user %d", a, err, os.Geteuid())
	}
	if err := a.MayBecome(); err != nil {
		t.Errorf("MayBecome = %v, want nil: it is this user", err)
	}
	group, err := LookupAccount(t.Context(), "", "4711")
	if err != nil || group.GID != 4711 || group.Name != a.Name || !slices.Equal(group.Groups, a.Groups) {
		t.Errorf("LookupAccount with a group = %+v, %v, want the rest as without", group, err)
	}
}

func TestCheckAccountName_Rules(t *testing.T) {
	for _, name := range []string{"root", "_apt", "www-data", "a.b", "65532", "0", "domain users", "DOMAIN\\user", "user@example.org", "käse", "svc$"} {
		if err := CheckAccountName(name); err != nil {
			t.Errorf("CheckAccountName(%q) = %v, want nil", name, err)
		}
	}
	for _, name := range []string{
		"", "-r", "+x", ".", "..", " a", "a ", "a:b", "a/b", "a,b", "a\nb", "a\x00", "a\x7f", "\xff", "4294967295", "4294967296",
		strings.Repeat("x", 257),
	} {
		if err := CheckAccountName(name); err == nil {
			t.Errorf("CheckAccountName(%q) = nil, want an error", name)
		}
	}
}

func TestLoginShell_RunsSomething(t *testing.T) {
	for shell, want := range map[string]string{
		"/bin/bash": "/bin/bash", "/usr/bin/zsh": "/usr/bin/zsh", "": "/bin/sh", "/usr/sbin/nologin": "/bin/sh",
		"/sbin/nologin": "/bin/sh", "/bin/false": "/bin/sh", "/usr/bin/false": "/bin/sh", "/bin/sync": "/bin/sh",
	} {
		if got := loginShell(shell); got != want {
			t.Errorf("loginShell(%q) = %q, want %q", shell, got, want)
		}
	}
}
