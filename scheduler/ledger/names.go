package ledger

import (
	"fmt"
	"strings"
)

// maxName bounds a name, in bytes.
const maxName = 64

// CheckName tells whether a job, a lock or a host may be called so: a letter or digit, then up to 63
// of A-Z a-z 0-9 . _ -. Names become parts of keys and of what is kept in them: with a colon the
// record of one job would be a stream of another, a slash would end a name early in a lease's
// holder, and a brace would take a key to another slot of a cluster. Nil: it may.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > maxName || !isNameStart(name[0]) {
		return nameError(name)
	}
	for i := range len(name) {
		if c := name[i]; !isNameStart(c) && c != '.' && c != '_' && c != '-' {
			return nameError(name)
		}
	}
	return nil
}

func isNameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func nameError(name string) error {
	return fmt.Errorf("%q is no name: want a letter or digit, then up to %d of A-Z a-z 0-9 . _ -", name, maxName-1)
}

// checkScoped is CheckName for a job or a lock that is one for each host: NAME@HOST.
func checkScoped(name string) error {
	name, host, scoped := strings.Cut(name, "@")
	if scoped {
		if err := CheckName(host); err != nil {
			return err
		}
	}
	return CheckName(name)
}

// EveryHost names the jobs that one of the table is on each of its hosts, all of them, to [Ledger.Pause],
// [Ledger.Resume] and [Ledger.State]: also those on hosts that are away, or come later.
func EveryHost(job string) string { return job + everyHost }

// everyHost stands where such a job's name has its host. No host is called so.
const everyHost = "@*"

// EveryHostOf is EveryHost of the job that one of a host, NAME@HOST, belongs to. "": it is none.
func EveryHostOf(job string) string {
	name, _, scoped := strings.Cut(job, "@")
	if !scoped {
		return ""
	}
	return EveryHost(name)
}
