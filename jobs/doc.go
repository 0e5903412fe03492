// Package jobs is what runs and how it ends. It knows no schedules, no leases and no Redis.
//
// A [Handler] runs one attempt of a job. There are three: [Command] starts a program, [HTTP] sends
// a request, [Func] calls Go code. Each gets a [Run], which says which tick it runs for and under
// which fencing token, and answers with a [Result]. A [Retry] around one of them makes further
// attempts when one has failed, in the same run.
//
// # How an attempt ends
//
//	            the program ends, or the Func returns
//	running ───────────────────────────────────────────▶ what is left of it ──▶ gone
//	   │                                                  SIGTERM, KillGrace,     ▲
//	   │ ctx ends: ErrTimedOut, ErrCancelled,             SIGKILL                 │
//	   ├──────────── ErrInterrupted ──▶ SIGTERM, KillGrace, SIGKILL ──────────────┤
//	   │ ctx ends: ErrLost                                                        │
//	   ├──────────── SIGTERM, and run.Kill ──▶ SIGKILL ───────────────────────────┤
//	   │ run.Deadlines come                                                       │
//	   ├──────────── SIGTERM at the first, SIGKILL at the second ─────────────────┤
//	   │ run.Kill is closed, or the warden is lost                                │
//	   └──────────── SIGKILL ─────────────────────────────────────────────────────┘
//
// Run returns when all are gone, so that a lease released after it cannot meet a process of the
// old run. If ctx ended first, the outcome is that of its cause, whatever the program or the
// function answered to it; else it is what they answered.
//
// That is a command's end. A request has nothing to be given time for: its connection is closed at
// once, and what its server makes of it is beyond reach. A Func ends when it returns.
//
// # The warden
//
// A [Warden] is a second process of the same binary. It starts the programs for the daemon, knows their
// deadlines, and kills them by these whatever the daemon does: hangs, is stopped, is killed. Whichever of
// the two is lost, the other one ends the runs:
//
//	the daemon hangs or is stopped    the warden ends each run at its deadlines, which nobody moves
//	the daemon is killed, or closes   the warden kills all runs, and exits
//	the warden is killed              the daemon kills all runs, as lost, says so, starts another warden
//	the warden hangs or is stopped    the same, after a second without an answer or without room
//	the machine sleeps                CLOCK_BOOTTIME went on: what has passed has passed when it wakes
//	both are killed at once           the main processes die with the warden, unless they are of setuid programs
//	                                  or of ones with capabilities, which are free of that (PR_SET_PDEATHSIG in
//	                                  prctl(2)); what they forked does not
//	both are stopped                  nothing ends the runs
//
// However many processes there are, it looks at them for a moment at a time, and hears the daemon and keeps
// the deadlines of others between; and it sends signals to process groups before it looks for what has left
// them. Where it may, it has a higher priority than all that it starts.
//
// Deadlines move only when the daemon says so, and the daemon says so when a renewal of the lease was
// confirmed. So no run needs its daemon to end in time; it needs it to go on. Nor does any wait for the log: a
// Warden hands its records on, and counts those that do not fit.
//
// # File systems that do not answer
//
// A run whose directory, program or interpreter is on one waits for it, and nothing else does. The daemon asks
// for these files before the warden executes the program, because execve(2) has the warden wait: one that
// hangs all the same (what the loader takes, a file system that goes away between the two) holds up later
// starts, is told of, and is killed after ten seconds. If even that does not end it, starts fail that have
// waited for as long.
//
// No program starts after its run's StartBy, whatever kept it. Such a run has failed, and is Unstarted.
//
// # What a command gets
//
// A process group of its own; stdin from /dev/null, unless it is handed the caller's (Command.Files), and
// no descriptors but 0, 1 and 2; the default action for every signal that the daemon handles itself, and
// no signal blocked; the daemon's original soft limit on open files; and only the environment that it was
// given ([BaseEnv], [ParseEnv], [Environ]). In a warden its soft limit RLIMIT_LOCKS, which no kernel since
// Linux 2.4.25 looks at, is a number that stands for the run. No shell is involved unless it is named
// ([Shell]).
//
// Where they are named it gets a user, a group and the supplementary groups that the system has that user
// in ([LookupAccount]), without any capability of the daemon's; a file creation mask; and a priority. What
// of them the daemon may not give is a start failure, as is a directory or a program that this user may
// not enter or execute. There is no session of PAM, so none of its limits (limits.conf(5)), and
// no_new_privs is as the daemon has it: a run may call sudo(8).
//
// # Cgroups and limits
//
// Where [WardenOptions].Cgroups finds a cgroup that was delegated to the daemon, each attempt gets one of
// its own, in which it is started (clone(2), CLONE_INTO_CGROUP). What is in it is of the run, whatever it did
// to its session, its parents and its environment; it is killed in one step (cgroup.kill), and what it used
// is known, whoever waited for it. SIGTERM is sent while all of it stands still (cgroup.freeze), so that each
// process gets it once, and none that is started to clean up. [Limits] are set in it; what cannot be set is
// told of and keeps no run from running. Without a cgroup the rest holds all the same.
//
// What earlier processes left there that were killed together with their warden is ended when the next one
// starts.
//
// # What is covered
//
// In a warden the processes of a run are its process group, everything that descends from its main
// process, and every orphan that comes to the warden and shows whose it is: by its group, by its
// RLIMIT_LOCKS, or by its ROTA_RUN in /proc. So sessions, double forks and cleared environments are no way
// out, nor is forking away while the run is being ended. A process that has changed that limit, cleared its
// environment, left its group, and lost its parent, all of them, is told of and left alone until the
// warden ends. In a cgroup of its own it is known by that, and ends with its run; and what was moved out of
// that is known by the other signs.
//
// Where /proc hides other users' processes from the daemon (hidepid in proc(5)), one that has become another
// user's shows but its process group and its cgroup. The log says so when the Warden starts.
//
// Without a warden they are the process group and every process that shows its ROTA_RUN. One that forks
// while it is looked for, or hides its environment, is missed; and nobody ends what a killed or stopped
// daemon leaves.
//
// Not covered by either: processes in uninterruptible sleep, which no signal ends; without a cgroup of the
// run's own, those in one that somebody froze, and other users' that this one may not signal; and work that
// was handed to somebody else, be it systemd, a container's manager, or a server on the network.
//
// The group is signalled as one, and the number that names it cannot pass to a stranger, because the
// main process is reaped last.
//
// # Goroutines
//
// A [Warden] owns six: one supervises, one reaps, one writes to the log, two are the connection's, which read
// and write, and one waits for the warden's process. Of a warden that was lost the last three go on until its
// runs are dead, and one more, which kills these. Close waits for all, but not for ever for a log that takes
// nothing, and a process that does not die. Nobody else ever waits for the warden itself.
//
// Each Run of a Command in it owns one, which copies the output. Without a warden there are three: one waits
// for the main process, one for run.Kill. Looking for the files of a start takes another one until it has
// seen them, with a thread of its own where another user's rights are asked for; looking for processes, one
// for the moment of each read. One that the kernel holds up is left behind until it returns, one for each
// program of those that hang.
//
// Run of an HTTP owns up to three, and waits for them: one waits for run.Kill, one writes the request,
// one closes the connection when ctx ends. Run of a Func owns one, in which the function is called.
package jobs
