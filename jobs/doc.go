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
//	   │ run.Kill is closed                                                       │
//	   └──────────── SIGKILL ─────────────────────────────────────────────────────┘
//
// Run returns when all are gone, so that a lease released after it cannot meet a process of the
// old run. If ctx ended first, the outcome is that of its cause, whatever the program or the
// function answered to it; else it is what they answered.
//
// That is a command's end. A request has nothing to be given time for: its connection is closed at
// once, and what its server makes of it is beyond reach. A Func ends when it returns.
//
// # What a command gets
//
// A process group of its own; stdin from /dev/null and no descriptors but 0, 1 and 2; the
// default action for every signal that the daemon handles itself, and no signal blocked; the
// daemon's original soft limit on open files; and only the environment that it was given
// ([BaseEnv], [Environ]).
// No shell is involved unless it is named ([Shell]).
//
// # What is covered
//
// The processes of a run are its process group and every process outside of it that shows its
// ROTA_RUN in /proc. The group is signalled as one, and the number that names it cannot pass to
// a stranger, because the main process is reaped last. The others are looked for when a run ends.
//
// With a [Starter], a daemon that is killed with SIGKILL takes the main processes of its runs
// with it.
//
// # What it does not do yet
//
// Descendants that left the group and hide or drop their ROTA_RUN are not found: a cleared
// environment, another user's process, a title written over the environment, a process whose
// memory is held up by something that hangs. When the daemon is killed, grandchildren live on; when it hangs, nothing ends its runs. The warden and cgroups
// are for these. A command runs as the daemon's user.
//
// # Goroutines
//
// Each Run of a Command owns three goroutines and waits for them: one waits for the main process,
// one for run.Kill, one copies the output. Looking for processes takes a goroutine for the moment
// of each read; one that the kernel holds up is left behind until it returns.
// Run of an HTTP owns up to three, and waits for them: one waits for run.Kill, one writes the request,
// one closes the connection when ctx ends. Run of a Func owns one, in which the function is called.
// A Starter owns one, which keeps an operating system thread to itself, until Close.
package jobs
