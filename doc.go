// Package rota is the map of this module; it holds no code.
//
// Rota is cron for a fleet. Identical daemons run on many hosts with the same table of jobs. For
// each tick of each job they race for one lease in Redis; one host wins, runs the job, renews the
// lease while it runs, stops the job before the lease can pass to anyone else, and hands the job a
// fencing token, so that its writes can be refused once they are stale.
//
// # Packages
//
// Values flow one way: config to scheduler to locking and jobs. What those return, the scheduler
// writes to the ledger.
//
//	          internal/cli      one file a command
//	               |
//	         internal/daemon    wires one host: reload, drain, signals
//	          /          \
//	internal/config    scheduler          when and who
//	(knows TOML)       /   |   \   \
//	         schedule   ledger  jobs  \   what runs and how it ends
//	      when is it     |             |
//	            due?     +-- locking --+  leases with fencing tokens
//
//   - [rota/locking] is a library by itself: leases over Redis, and what a holder must do to be
//     able to trust one. It knows no jobs.
//   - [rota/jobs] starts commands, HTTP requests and Go functions, and ends them, all of them.
//   - [rota/scheduler/schedule] turns a cron schedule into ticks. It is pure.
//   - [rota/scheduler/ledger] keeps in Redis what was decided of every tick.
//   - [rota/scheduler] decides what is due, races for it, holds what it won, and follows the
//     policies for what could not run.
//   - Everything under internal wires these together, for the command line or for tests.
//
// That the imports follow this picture is held by a test, as are the other rules of the house.
//
// # Why two things in Redis
//
// A lock that is held only while a job runs does not give "once per tick": a host whose claim
// arrives after a short job has ended finds the lock free, and runs it again. So each job has a
// lease, which says who runs now and expires, and a record, which says what was decided of its
// ticks and outlives every run. One script decides on both in one round trip. The package comment
// of [rota/scheduler/ledger] tells how.
//
// # Words
//
// Fleet, host, job, tick, claim, lease, fencing token, run, outcome and the rest mean one thing
// each, in code, logs, docs and help. They are in docs/terms.md.
package rota
