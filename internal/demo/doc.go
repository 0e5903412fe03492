// Package demo shows, in the time it takes to read it, what Rota does: a fleet on this machine
// races for every tick, one of its hosts is killed, another takes its job over, and the ledger
// is asked whether any tick ran twice or was forgotten.
//
// Nothing of it is staged. The Redis is the embedded one, but the hosts are daemons, each a real
// process with a config of its own in a temporary folder. What is shown live comes from their
// logs; the kill is a SIGKILL of whichever host runs the slow job at that moment.
//
//	start ──▶ all hosts beat ──▶ race ─────────────▶ settle ──▶ drain ──▶ verdict
//	          (the window opens)   └ kill ┘ takeover  (the window is closed)
//
// # The verdict
//
// The ticks that were due are computed from the schedules, between the instant at which all hosts
// were up and the stop, by Redis' clock. Each must have a run or an entry that says why it had
// none. That is asked of the ledger; a second witness, which knows nothing of Rota, is a file to
// which every run appends its job, tick, token and host. A tick that ran twice in either of them
// is a double. Tokens must rise in both, job by job, in the order of each.
//
// # What is promised
//
// [Run] leaves no process and no file behind: after its time, after a signal, and when a host
// does not start. If this process itself is killed, the kernel kills the daemons
// (PR_SET_PDEATHSIG), and they take their runs with them; only the folder stays.
//
// # Goroutines
//
// The caller's does all the work: it alone touches the board, the screen and the hosts. It is
// locked to its thread, because the kernel's signal is tied to the thread that started a daemon.
// Each host has one goroutine that waits for its end and one, of package os/exec, that copies its
// log; the kill has one that looks for what is left of the host. They all hand over by the queue,
// as the end of the context does, which never blocks them: a terminal that is stopped must not stop
// the daemons. Run waits for all of them.
package demo
