// Package rota is the map of this module; it holds no code.
//
// Rota is cron for a fleet. Identical daemons run on many hosts with the same table of jobs. For
// each tick of each job they race for one lease in Redis; one host wins, runs the job, renews the
// lease while it runs, stops the job before the lease can pass to anyone else, and hands the job a
// fencing token, so that its writes can be refused once they are stale.
//
// # Packages
//
// Each stands under what imports it:
//
//	internal/cli              the command line, one file a command
//	  internal/daemon         wires one host: reload, drain, signals
//	    internal/config       TOML in, validated values out
//	    internal/redischeck   asks a Redis what would hurt later
//	    internal/outcomes     keeps outcomes on disk while Redis is away
//	    internal/socket       answers a run that has a value fenced
//	      locking/fence       refuses the writes of holders that were overtaken
//	  internal/shadow         a dry run: races for every tick beside the fleet, and runs nothing
//	  internal/preview        replays a table offline, over a virtual fleet
//	    .../preview/picture   draws what comes of it
//	  internal/pastruns       how long the runs of jobs took, from the ledger
//	    scheduler             when and who: the race, what was won, the policies
//	      scheduler/schedule  which instants are due; pure
//	      scheduler/ledger    what Redis keeps of every tick: claim, renew, finish
//	        locking           leases with fencing tokens over Redis
//	      jobs                what runs and how it ends, all of it
//
// Values flow one way, from the config to the scheduler to locking and jobs. What those return,
// the scheduler writes to the ledger. [rota/locking], [rota/jobs] and [rota/scheduler/schedule]
// know nothing of the others and are libraries by themselves. A test holds the imports to this
// picture, as others hold the rest of the house rules.
//
// # Why two things in Redis
//
// A lock that is held only while a job runs does not give "once per tick": a host whose claim
// arrives after a short job has ended finds the lock free, and runs it again. So each job has a
// lease, which says who runs now and expires, and a record, which says what was decided of its
// ticks and outlives every run. One script decides on both in one round trip;
// [rota/scheduler/ledger] tells how.
//
// # Words
//
// Fleet, host, job, tick, claim, lease, fencing token, run, outcome and the rest mean one thing
// each, in code, logs, docs and help. They are in docs/terms.md.
package rota
