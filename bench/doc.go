// Package bench is the root of the module that measures Rota. It is a module of its own, so that
// what Rota is measured against never gets into the product's go.mod.
//
//	sample   timings that can be compared although the machine is noisy
//	server   a real redis-server, the daemon's own client, and where the server's time goes
//	tick     claim and finish, a thousand ticks due at once, the plan
//	warden   a start and a run through the warden, and the warden's memory
//	idle     a daemon that has nothing to do: memory, commands, goroutines
//
// Whatever is compared with another implementation gets a package beside tick: leases in lock,
// fleets in fleet.
//
// Every figure with a bound is a ratio: the thing and its yardstick take turns on the same server,
// within one run, and the medians are divided. So a slow or shared machine makes both slow. What
// is absolute (memory, commands, goroutines, nanoseconds of the plan) says so.
//
// `make bench` runs all of it; docs/performance.md has the figures and their bounds.
package bench
