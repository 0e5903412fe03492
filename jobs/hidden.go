//go:build linux

package jobs

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// warnOfHiding says that /proc hides processes from this one, if it does.
func (w *Warden) warnOfHiding() {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return // nothing is known
	}
	groups, _ := os.Getgroups()
	option := hides(string(mounts), append(groups, os.Getegid()))
	if option != "" && len(lacking(capSysPtrace)) > 0 {
		w.log.Warn("processes are hidden", "reason", "/proc is mounted with "+option,
			"effect", "a process of a run that has become another user's (setuid programs) is lost sight of once it has left its group",
			"remedy", "mount /proc with gid= and a group of the daemon's, or without hidepid")
	}
}

// hides returns the option by which /proc shows the members of none of the groups what is another user's,
// "" if there is none (hidepid and gid in proc(5)). mounts is what /proc/self/mountinfo has.
func hides(mounts string, groups []int) (option string) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		at := slices.Index(fields, "-")
		if len(fields) < 5 || fields[4] != "/proc" || at < 0 || len(fields) < at+4 || fields[at+1] != "proc" {
			continue
		}
		option = "" // the last mount at a place covers those before
		for o := range strings.SplitSeq(fields[at+3], ",") {
			value, isHide := strings.CutPrefix(o, "hidepid=")
			if isHide && value != "0" && value != "off" {
				option = o
			}
			if gid, ok := strings.CutPrefix(o, "gid="); ok {
				if n, err := strconv.Atoi(gid); err == nil && slices.Contains(groups, n) {
					return ""
				}
			}
		}
	}
	return option
}
