package config

// later names every key of the contract whose part is not built yet, and as key=value every
// such value of a key that is. They are recognised, checked as far as a value can be without
// its part, and refused as "not yet supported"; building the part deletes the line.
//
// The keys of jobs stand under "jobs", also for those in [defaults].
func later() []string {
	return []string{
		"redis.nodes",
		"redis.restart_delay",

		"notify",

		"jobs.expect_within",
		"jobs.ping",
		"jobs.notify",
		"jobs.notify_on",
	}
}
