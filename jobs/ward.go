//go:build linux

package jobs

import (
	"os"
	"syscall"
	"time"
)

// A ward is a run that the warden has, as the daemon sees it.
type ward struct {
	link   *link
	id     runID
	run    string   // ROTA_RUN
	main   int      // pid of the main process, 0 until it is announced; the link's lock guards it
	memory *os.File // its program, if that was too long for a packet, until it is sent

	began chan struct{} // closed when exec is done, or the ward is over
	over  chan struct{} // closed when nothing of it lives

	// Set before the channels are closed, by the link's reader, or by giveUp after that has ended, or by the writer
	// before the warden knows of it.
	started time.Time // exec done; zero if that is not known
	failed  *failedMessage
	ended   *endedMessage
	at      time.Time // when it ended
	lost    error     // the warden's end, without a word about the run
	unsent  bool      // and it had not heard of it
	refused error     // it could not be handed to the warden
	used    usage     // by then, if that is known

	lease leaseTimes // what was told last; the caller's alone
}

func (wd *ward) begin() {
	select {
	case <-wd.began:
	default:
		close(wd.began)
	}
}

func (wd *ward) finish() {
	wd.begin()
	close(wd.over)
}

// end has the run ended: SIGTERM now, SIGKILL after grace. A negative grace is SIGKILL now.
func (wd *ward) end(grace time.Duration) { wd.tell(endMessage{wd.id, grace}) }

// signal has the run's process group get a signal.
func (wd *ward) signal(sig syscall.Signal) { wd.tell(signalMessage{wd.id, uint32(sig)}) }

func (wd *ward) tell(m message) {
	wd.link.mu.Lock()
	err := wd.link.post(parcel{packet: m.append(nil)})
	wd.link.mu.Unlock()
	if err != nil {
		wd.link.fail(err) // a warden that cannot be told anything about a run is none
	}
}

// move sets the run's deadlines. Many that move together go in one packet.
func (wd *ward) move(term, kill time.Duration) {
	if lease := (leaseTimes{term, kill}); wd.lease != lease {
		wd.lease = lease
		wd.link.mu.Lock()
		defer wd.link.mu.Unlock()
		if wd.link.wards[wd.id] == wd {
			wd.link.moves[wd.id] = lease
			wd.link.poke()
		}
	}
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
