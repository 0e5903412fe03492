package jobs

import "strconv"

// Limits is what one run may use, all its processes together. Each attempt begins anew. A field
// that is zero, or below, sets no limit.
//
// They take a cgroup of the run's own, with the controllers named below, and so a [Warden] that was
// started with Cgroups. A limit that this host
// cannot set does not keep a run from running: where a table goes to many hosts, the ones without
// a delegated cgroup still do their work, and say what they run without.
type Limits struct {
	// MemoryBytes is the most memory, page cache included, and none of it in swap: a run that is
	// over its limit is meant to end, not to slow the host down. The kernel first takes back what
	// it can. When that is not enough the whole run is killed, and has [Failed], with the reason
	// (memory.max, memory.swap.max, memory.oom.group). Whole pages; controller memory.
	MemoryBytes int

	// CPUPercent is the share of one CPU: 50 is half of one, 200 is two. A run that has used it up
	// stands still until the next tenth of a second (cpu.max); controller cpu.
	CPUPercent int

	// Tasks is the most processes and threads at a time. A fork above it fails with EAGAIN inside of
	// the run (pids.max); controller pids.
	Tasks int
}

// mebibytes is a number of bytes for a person, exactly.
func mebibytes(n int) string {
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', -1, 64) + "MiB"
}
