package config

import (
	"slices"

	"rota/jobs"
	"rota/scheduler"
)

// A Lack is a limit that jobs ask for and that a host cannot set, so that their runs go on without it.
type Lack struct {
	What string   // the key and the reason
	Jobs []string // their names, in order
}

// Lacks asks lacking, which is [jobs.Limits.Unsupported] or [jobs.Warden.Lacking], about the limits of
// every job that may run on this host. Jobs with the same answer are together.
func (c *Config) Lacks(lacking func(jobs.Limits) error) (lacks []Lack) {
	for i := range c.Jobs {
		j := &c.Jobs[i]
		if !j.Enabled || j.Request != nil || !scheduler.MayRun(j.Hosts, c.Host.Name, c.Host.Labels) {
			continue
		}
		for _, err := range joined(lacking(j.Limits)) {
			at := slices.IndexFunc(lacks, func(l Lack) bool { return l.What == err.Error() })
			if at < 0 {
				at = len(lacks)
				lacks = append(lacks, Lack{What: err.Error()})
			}
			lacks[at].Jobs = append(lacks[at].Jobs, j.Name)
		}
	}
	return lacks
}
