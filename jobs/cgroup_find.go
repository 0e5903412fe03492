//go:build linux

package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupLeaf is the child of the delegated cgroup that the daemon and its warden live in. Runs
// cannot have controllers beside processes of the delegated cgroup itself (cgroups(7), "no internal
// processes" rule). It is also what a unit may name as DelegateSubgroup= (systemd 254).
const cgroupLeaf = "daemon"

// A cgroupSite is a cgroup that was delegated to this process, so that it alone decides what is
// below.
type cgroupSite struct {
	dir string // where it is in the file system

	// inside tells that this process is in the cgroup itself, not yet in its leaf.
	inside bool

	// v1 are the controllers that a cgroup v1 hierarchy of this machine has, and v2 does not.
	v1 []string
}

// A cgroupFinder knows where to look. Tests let it look elsewhere.
type cgroupFinder struct {
	proc    string // "/proc/self"
	systemd string // a directory that is there when systemd runs the machine, see sd_booted(3)
}

// findCgroup finds the cgroup that was delegated to this process. The error says, for a person and
// for one line of the log, why there is none.
//
// What counts as delegated:
//   - on a machine that systemd runs: the cgroup that it marked so (Delegate= in
//     systemd.resource-control(5)), or on versions before 251, whose mark only root can read, one that
//     was made over to our user inside of somebody else's. In any other, systemd is the one writer
//     that a cgroup may have (its CGROUP_DELEGATION document, "single-writer rule");
//   - elsewhere, as in a container: the process' own cgroup, if it may be written.
//
// The root of the whole hierarchy is never delegated, since nobody did that.
func findCgroup() (cgroupSite, error) {
	return cgroupFinder{proc: "/proc/self", systemd: "/run/systemd/system"}.find()
}

func (f cgroupFinder) find() (cgroupSite, error) {
	text, err := os.ReadFile(path.Join(f.proc, "cgroup"))
	if err != nil {
		return cgroupSite{}, fmt.Errorf("own cgroup: %w", err)
	}
	own, v1, err := parseOwnCgroup(string(text))
	if err != nil {
		return cgroupSite{}, err
	}
	text, err = os.ReadFile(path.Join(f.proc, "mountinfo"))
	if err != nil {
		return cgroupSite{}, fmt.Errorf("mounts: %w", err)
	}
	dir, err := locateCgroup(own, parseCgroupMounts(string(text)))
	if err != nil {
		return cgroupSite{}, err
	}
	site := cgroupSite{dir: dir, inside: true, v1: v1}
	if _, err := os.Stat(f.systemd); !errors.Is(err, fs.ErrNotExist) {
		switch parent := path.Dir(dir); {
		case markedDelegated(dir) || madeOver(dir):
		case path.Base(dir) == cgroupLeaf && (markedDelegated(parent) || madeOver(parent)):
			site.dir, site.inside = parent, false
		default:
			return cgroupSite{}, fmt.Errorf("systemd did not delegate %s: its unit has no Delegate=", own)
		}
	}
	if err := usable(site.dir); err != nil {
		return cgroupSite{}, err
	}
	return site, nil
}

// parseOwnCgroup reads /proc/self/cgroup (cgroups(7)): the path in cgroup v2, as this process'
// cgroup namespace shows it, and the controllers that v1 has.
func parseOwnCgroup(text string) (own string, v1 []string, err error) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(fields) < 3:
		case fields[0] == "0" && fields[1] == "":
			own = fields[2]
		default:
			v1 = append(v1, strings.Split(fields[1], ",")...)
		}
	}
	switch {
	case own == "":
		return "", nil, errNoCgroup2
	case strings.HasSuffix(own, " (deleted)"):
		return "", nil, fmt.Errorf("this process' cgroup %s was removed", strings.TrimSuffix(own, " (deleted)"))
	case own == "/.." || strings.HasPrefix(own, "/../"):
		return "", nil, fmt.Errorf("this process' cgroup %s is outside of its cgroup namespace", own)
	}
	return own, v1, nil
}

// A cgroupMount is one of cgroup v2.
type cgroupMount struct {
	root     string // the cgroup that it begins with, as this process' cgroup namespace shows it
	dir      string
	readOnly bool
}

// parseCgroupMounts reads /proc/self/mountinfo (proc_pid_mountinfo(5)).
func parseCgroupMounts(text string) (mounts []cgroupMount) {
	for line := range strings.Lines(text) {
		about, super, ok := strings.Cut(line, " - ")
		fields := strings.Fields(about)
		if !ok || len(fields) < 6 || !strings.HasPrefix(super, "cgroup2 ") {
			continue
		}
		mounts = append(mounts, cgroupMount{
			root:     unescapeMount(fields[3]),
			dir:      unescapeMount(fields[4]),
			readOnly: slices.Contains(strings.Split(fields[5], ","), "ro"),
		})
	}
	return mounts
}

// unescapeMount undoes the kernel's \040 for a blank, and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

var errNoMount = errors.New("cgroup v2 is not mounted")

// locateCgroup is where a mount shows the cgroup own. A mount may lie under another one, or show a
// namespace that is not ours; so the directory has to name this process.
func locateCgroup(own string, mounts []cgroupMount) (string, error) {
	if len(mounts) == 0 {
		return "", errNoMount
	}
	readOnly := ""
	for _, m := range mounts {
		rest, ok := strings.CutPrefix(own, strings.TrimSuffix(m.root, "/"))
		if !ok || rest != "" && rest[0] != '/' {
			continue
		}
		dir := path.Join(m.dir, rest)
		if pids, err := cgroupDir(dir).pids(); err != nil || !slices.Contains(pids, os.Getpid()) {
			continue
		}
		if !m.readOnly {
			return dir, nil
		}
		readOnly = m.dir
	}
	if readOnly != "" {
		return "", fmt.Errorf("cgroup v2 is mounted read-only at %s", readOnly)
	}
	return "", fmt.Errorf("no mount of cgroup v2 shows this process' cgroup %s", own)
}

// markedDelegated tells whether systemd says that a cgroup is delegated. It sets both attributes,
// the second one since version 251.
func markedDelegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, value); err == nil && bytes.Equal(value[:n], []byte("1")) {
			return true
		}
	}
	return false
}

// madeOver tells whether a cgroup is our user's inside of one that is not, which is how a cgroup is
// delegated to somebody without privileges (cgroups(7), "Cgroups delegation").
func madeOver(dir string) bool {
	uid := os.Geteuid()
	var own, parent unix.Stat_t
	return uid != 0 && unix.Stat(dir, &own) == nil && unix.Stat(path.Dir(dir), &parent) == nil &&
		int(own.Uid) == uid && int(parent.Uid) != uid
}

// usable says what keeps this process from making cgroups in dir.
func usable(dir string) error {
	kind, err := os.ReadFile(path.Join(dir, "cgroup.type"))
	switch {
	case errors.Is(err, os.ErrNotExist): // the file is in every cgroup but the first
		return fmt.Errorf("%s is the root of all cgroups, which nobody delegated", dir)
	case err != nil:
		return err
	case string(kind) == "threaded\n":
		return fmt.Errorf("%s is a threaded cgroup", dir)
	}
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		file := path.Join(dir, name)
		if err := unix.Faccessat(unix.AT_FDCWD, file, unix.W_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("%s may not be written: %w", file, err)
		}
	}
	return nil
}
