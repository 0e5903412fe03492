// Package warden measures what it costs that a second process starts the runs: the time of a start
// and of a whole run against a bare fork and exec of the same program, and the memory of that process;
// each also where every run gets a cgroup, which takes root.
//
// The times are ratios: both take turns within one run. The memory is absolute, of the warden of a real
// `rota run`. It needs Linux.
package warden
