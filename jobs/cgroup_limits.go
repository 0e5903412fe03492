//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// cpuPeriod is what cpu.max divides the time into, in microseconds; the kernel's own default.
const cpuPeriod = 100_000

// A cgroupSetting is one file that a limit is written to.
type cgroupSetting struct {
	limit      string // as the config calls it
	controller string
	file       string
	value      string

	// optional is a file that is not there on every kernel, or not without swap, and without which
	// the limit still holds.
	optional bool
}

// settings are what the kernel has to be told.
func (l Limits) settings() (all []cgroupSetting) {
	if l.MemoryBytes > 0 {
		const limit = "limits.memory"
		all = append(all,
			cgroupSetting{limit, "memory", "memory.max", strconv.Itoa(l.MemoryBytes), false},
			cgroupSetting{limit, "memory", "memory.swap.max", "0", true},
			cgroupSetting{limit, "memory", "memory.oom.group", "1", true})
	}
	if l.CPUPercent > 0 {
		quota := fmt.Sprintf("%d %d", l.CPUPercent*cpuPeriod/100, cpuPeriod)
		all = append(all, cgroupSetting{"limits.cpu", "cpu", "cpu.max", quota, false})
	}
	if l.Tasks > 0 {
		all = append(all, cgroupSetting{"limits.tasks", "pids", "pids.max", strconv.Itoa(l.Tasks), false})
	}
	return all
}

// limit sets the limits of a cgroup that has no process yet. The error has one line for each limit
// that does not hold, in the config's words; the others hold. lacks says why a controller is not
// there, where that is known.
func (d cgroupDir) limit(l Limits, lacks map[string]error) error {
	var failed error
	for _, s := range l.settings() {
		err := d.write(s.file, s.value)
		switch {
		case err == nil || s.optional && errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, s.unset(lacks))
		default:
			failed = errors.Join(failed, fmt.Errorf("%s is not set: %w", s.limit, err))
		}
	}
	return failed
}

// unset says that the setting's controller is not enabled.
func (s cgroupSetting) unset(lacks map[string]error) error {
	if why := lacks[s.controller]; why != nil {
		return fmt.Errorf("%s is not set: %w", s.limit, why)
	}
	return fmt.Errorf("%s is not set: the cgroup has no controller %s", s.limit, s.controller)
}
