//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// errNoCgroup2 says that nothing of cgroups is to be had here.
var errNoCgroup2 = errors.New("this kernel has no cgroup v2")

// Unsupported says which of the limits no process of this machine can set, whatever was delegated to it:
// an error for each, joined, with the reason. Nil says that they could be set. It is for whoever is not the daemon;
// what a daemon can do, [Warden.Lacking] knows.
func (l Limits) Unsupported() error { return cgroupFinder{proc: "/proc/self"}.unsupported(l) }

func (f cgroupFinder) unsupported(l Limits) error {
	text, _ := os.ReadFile(path.Join(f.proc, "cgroup"))
	if len(text) == 0 {
		return nil // nothing is known
	}
	_, v1, err := parseOwnCgroup(string(text))
	if errors.Is(err, errNoCgroup2) {
		return l.lackingAll(err)
	}
	lacks := map[string]error{}
	for _, name := range controllers() {
		if slices.Contains(v1, name) {
			lacks[name] = inV1(name)
		}
	}
	if text, err = os.ReadFile(path.Join(f.proc, "mountinfo")); err == nil {
		mounts := parseCgroupMounts(string(text))
		if len(mounts) == 0 {
			return l.lackingAll(errNoMount)
		}
		for _, m := range mounts {
			// What the first cgroup that is to be seen from here does not have, none of the others can have.
			has, err := cgroupDir(m.dir).read("cgroup.controllers")
			for _, name := range controllers() {
				if err == nil && m.root == "/" && lacks[name] == nil && !slices.Contains(strings.Fields(string(has)), name) {
					lacks[name] = fmt.Errorf("cgroup v2 has no controller %s here", name)
				}
			}
		}
	}
	return (&cgroups{lacks: lacks}).lacking(l)
}

// controllers are those that limits take.
func controllers() []string { return []string{"memory", "cpu", "pids"} }

func inV1(controller string) error {
	return fmt.Errorf("cgroup v1 has the controller %s on this machine", controller)
}
