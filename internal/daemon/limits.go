package daemon

import (
	"log/slog"

	"rota/internal/config"
	"rota/jobs"
)

// warnOfLimits says which limits of the table do not hold on this host. A line each: with [defaults] they
// may be those of a thousand jobs.
func warnOfLimits(log *slog.Logger, c *config.Config, warden *jobs.Warden) {
	for _, l := range c.Lacks(warden.Lacking) {
		log.Warn("limit does not hold on this host", "reason", l.What, "jobs", len(l.Jobs), "job", l.Jobs[0],
			"effect", "runs go on without it", "remedy", limitsRemedy)
	}
}

// limitsRemedy is what an operator may do about it.
const limitsRemedy = "Delegate=cpu memory pids in the unit, and a machine with cgroup v2 alone; see docs/operations.md, Limits"
