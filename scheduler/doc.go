// Package scheduler decides when a job runs and on which host, and sees the run through.
//
// Every host of a fleet runs a [Scheduler] over the same table. There is no leader: each
// computes the ticks itself and races for them, and the ledger's claim script lets one win.
//
//	Plan ──▶ loop ──▶ race ──▶ claim ──▶ run ──▶ finish
//	pure     ticks    waits    won?      lease,   lease back,
//	         in order its turn           handler  outcome
//
// Safety comes from the claim alone. The order of the race only saves work: for each tick the
// hosts are ranked by a hash, the first claims at once and the others look, one small read an
// instant, whether anything is left for them when their turn comes.
//
// A run is stopped before its lease can pass to anybody else: its context ends with
// [jobs.ErrLost] in time for the loss grace, and its Kill channel is closed before the trust
// deadline. The same two instants are its [jobs.Deadlines], which every confirmed renewal moves
// on: the warden keeps them also when this process does not. Losing a lease ends that run and
// nothing else. While Redis is away nothing is claimed; runs go on until their trust deadlines;
// what could not be claimed in time is in the ledger as missed, with the first claim afterwards.
// How runs ended meanwhile is kept, in Options.Outcomes beyond the end of this process, and
// delivered in order when Redis is back.
//
// Goroutines: [Scheduler.Run] owns them all and returns after the last of them. The loop alone
// walks the plan. The heart beats every two seconds and is the only one that changes what is
// known of the fleet. Each instant's race, each claim that must be repeated and each run has
// one of its own. docs/goroutines.md lists them.
package scheduler
