//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// cgroupUsage is what a cgroup and those in it used, from its beginning to now, dead processes
// included.
type cgroupUsage struct {
	cpu, user, system time.Duration // cpu is all of it

	// peakBytes is the most memory at a time, page cache included; 0 if that is not known: without
	// the controller, or before Linux 5.19.
	peakBytes int64

	// oomKills counts the processes that the kernel killed for want of memory, and memoryHits how
	// often it could take back nothing at the cgroup's own limit. Kills without hits are for the limit
	// of a cgroup further up, or of the machine.
	oomKills, memoryHits int64

	// refusedTasks counts the forks and threads that failed for want of a free place.
	refusedTasks int64
}

// usage reads what there is, until the cgroup is removed: files of controllers that are not enabled
// are missing, which is no error.
func (d cgroupDir) usage() (u cgroupUsage, err error) {
	var usec [3]int64
	for _, f := range []struct {
		name string
		keys map[string]*int64
	}{
		{"cpu.stat", map[string]*int64{"usage_usec": &usec[0], "user_usec": &usec[1], "system_usec": &usec[2]}},
		{"memory.events", map[string]*int64{"oom_kill": &u.oomKills}},
		{"memory.events.local", map[string]*int64{"oom": &u.memoryHits}},
		{"pids.events", map[string]*int64{"max": &u.refusedTasks}},
	} {
		text, readErr := d.read(f.name)
		if readErr != nil {
			err = errors.Join(err, unlessMissing(readErr))
			continue
		}
		for key, dst := range f.keys {
			var keyErr error
			*dst, keyErr = keyed(text, key)
			err = errors.Join(err, keyErr)
		}
	}
	u.cpu, u.user, u.system = microseconds(usec[0]), microseconds(usec[1]), microseconds(usec[2])

	text, peakErr := d.read("memory.peak")
	if peakErr == nil {
		u.peakBytes, peakErr = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	return u, errors.Join(err, unlessMissing(peakErr))
}

func unlessMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// said is what the limits, or want of memory, had to do with a run that failed, for its reason; ""
// if nothing.
func (u cgroupUsage) said(l Limits) string {
	switch {
	case u.oomKills > 0 && u.memoryHits > 0 && l.MemoryBytes > 0:
		return "killed by the memory limit of " + mebibytes(l.MemoryBytes)
	case u.oomKills > 0:
		return "killed by the kernel, which was out of memory"
	case u.refusedTasks > 0 && l.Tasks > 0:
		return fmt.Sprintf("the limit of %d tasks was reached", l.Tasks)
	}
	return ""
}
