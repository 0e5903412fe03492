//go:build linux

package jobs

import "time"

// The messages between the daemon and its warden. Each is one packet of a SOCK_SEQPACKET pair
// (unix(7)): it arrives whole or not at all, in order, with its descriptors, and its end is known.
//
//	daemon to warden
//	start    a run: its program, its deadlines, the descriptor of its output or its three standard ones
//	move     new deadlines, of any number of runs
//	end      a run is to end: SIGTERM now, SIGKILL after a grace
//	signal   a run's process group is to get a signal, which changes nothing else
//	ping     asks for a pong
//
//	warden to daemon
//	ready    the first message: the warden serves
//	started  exec is done
//	failed   exec was refused, or not tried
//	ended    the last process of a run is gone
//	stray    a process has come to the warden that belongs to no run, or to one that has ended
//	hangs    an exec has not come back for a while
//	flaw     a run goes on, or has ended, without something that it should have had
//	pong     the answer to a ping
//
// For each start there is one failed, or one started and one ended. A message about a run that is
// over is passed over: the two sides need not agree on the order of what each of them does.
//
// What happens when something fails:
//
//	the connection ends            the warden kills everything and exits; the daemon kills the warden, then
//	                               everything that it had, says that its runs are lost, starts another
//	a packet cannot be read        whoever sees that ends the connection: nobody knows what was meant
//	no room for the daemon         its words wait in the link; after a second the connection has failed
//	no room for the warden         its words wait, for as long as it takes; deadlines do not
//	no pong within a second        the connection has failed; a second in which the daemon was awake
//	the connection fails after a   it may have been read or not: the run is lost, and is not started
//	start was sent                 again; one that was not sent goes to the next warden
//	a descriptor did not arrive    failed, with EMFILE
//	exec hangs                     later starts wait, nothing else does; after startPatience it is killed, and
//	                               those that have waited for as long are failed; see server.startLimit
//	a start deadline comes first   failed; an exec that is under way is killed before
//	a deadline comes before exec   failed; while exec is under way SIGKILL, which is ended
//	a move comes too late          it changes nothing: see life
//	the daemon's clock and the     there is one, CLOCK_BOOTTIME, for both
//	warden's differ
//
// Integers are little-endian, instants are readings of CLOCK_BOOTTIME in nanoseconds. Both ends are
// the same binary, so there are no versions to agree on.

// maxPacket bounds a packet, in bytes. It is well below the least size of a socket's buffer, for a
// packet that does not fit there can never be sent.
const maxPacket = 32 << 10

// maxSpec bounds a program's arguments and environment on the wire. The kernel takes 6 MiB at most
// (execve(2), limits on size of arguments and environment); what is above is refused without asking.
const maxSpec = 8 << 20

// moveLen is the length of one move on the wire, movesAtOnce how many fit into a packet.
const (
	moveLen     = 3 * 8
	movesAtOnce = (maxPacket - 1) / moveLen
)

// A kind is the first byte of a packet.
type kind byte

const (
	kindStart kind = iota + 1
	kindMove
	kindEnd
	kindSignal
	kindPing
	kindReady
	kindStarted
	kindFailed
	kindEnded
	kindStray
	kindHangs
	kindFlaw
	kindPong
)

// A message is one of the structs below. append adds it to a packet.
type message interface{ append(to []byte) []byte }

// A runID names a run on one connection. The daemon counts them up from 1.
type runID uint32

type (
	startMessage struct {
		run     runID
		lease   leaseTimes
		startBy time.Duration // see [Run]
		grace   time.Duration // for what the main process leaves behind
		// files is how many of the first descriptors are the program's: none, its output, or its
		// standard input, output and error.
		files uint8
		// spec is the encoded [spec]. One that does not fit into the packet comes in the last
		// descriptor, a file in memory (memfd_create(2)), and specLen says how long it is.
		spec    []byte
		specLen uint32
		limits  Limits // none where the run has no cgroup
	}

	// leaseTimes are deadlines, as [Deadlines] has them.
	leaseTimes struct{ term, kill time.Duration }

	moveMessage []move
	move        struct {
		run   runID
		lease leaseTimes
	}

	endMessage struct {
		run   runID
		grace time.Duration // negative: SIGKILL at once
	}

	signalMessage struct {
		run    runID
		signal uint32 // by number
	}

	pingMessage  struct{ seq uint32 }
	pongMessage  struct{ seq uint32 }
	readyMessage struct{ marks uint64 } // the range of the warden's marks, see marks
	hangsMessage struct{ run runID }

	startedMessage struct {
		run runID
		pid int32
		at  time.Duration
	}

	failedMessage struct {
		run   runID
		why   failure
		errno uint32 // if why is failedExec or failedNice
	}

	endedMessage struct {
		run    runID
		status uint32 // of the main process, as wait(2) has it
		at     time.Duration
		by     endedBy
		killed bool // SIGKILL was sent
		usage  usage
		want   string // what the limits, or want of memory, had to do with it; "": nothing
	}

	strayMessage struct {
		pid  int32
		why  strayReason
		name string // "" if that is not known
	}

	flawMessage struct {
		run  runID
		what flaw
		why  string
	}
)

// A failure is why a run was not started.
type failure uint8

const (
	failedExec    failure = iota // execve(2), or what comes before it in the child, was refused
	failedLate                   // its lease was about to end
	failedEnded                  // the daemon had asked for its end
	failedNice                   // setpriority(2) was refused
	failedOverdue                // its start deadline had come
	failedHung                   // exec did not come back
	failedBehind                 // that of another run did not
)

// A strayReason is why a process is no live run's.
type strayReason uint8

const (
	strayUnmarked strayReason = iota // it shows no sign of any
	strayHidden                      // it may not be looked at
	strayLate                        // its run is known, and was said to have ended
)

// A flaw is what was the matter with a run's cgroup.
type flaw uint8

const (
	flawNone  flaw = iota // it has none
	flawUnset             // some of its limits are not set
	flawLeft              // it could not be removed, or not be asked what the run used
)

// A spec is what is executed.
type spec struct {
	run  string // ROTA_RUN, "" if it has none
	path string
	dir  string
	args []string
	env  []string

	// Of these nil is what the warden itself has.
	as    *identity
	umask *int // 0 to 0777
	nice  *int // see getpriority(2): -20 to 19
}

// usage is what the processes of a run used: as far as somebody waited for them, see [Result].
type usage struct {
	cpu       time.Duration // user and system
	peakBytes int64
}
