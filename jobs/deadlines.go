package jobs

import (
	"sync"
	"time"
)

// Deadlines are the two instants that a run must not outlive for the sake of its lease: at the
// first all its processes get SIGTERM, at the second SIGKILL, whatever the daemon does by then.
// Whoever keeps the lease moves them each time it is renewed.
//
// An instant is a reading of CLOCK_BOOTTIME (clock_gettime(2)), which all processes of a machine
// share and which goes on while it sleeps; zero is none. The zero Deadlines holds none, and so does
// a nil one, which cannot be moved. It is safe for concurrent use.
type Deadlines struct {
	mu         sync.Mutex
	term, kill time.Duration
	moved      chan struct{} // closed by the next Move; nil while nobody waits for it
}

// Move sets both instants. A run that has come to one of them is given no more time by it: of its SIGKILL
// only an earlier instant counts. One that is ended for another reason keeps its lease until it is gone, and
// they move on for it as before.
func (d *Deadlines) Move(term, kill time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.term, d.kill = term, kill
	if d.moved != nil {
		close(d.moved)
		d.moved = nil
	}
}

// At returns the instants of SIGTERM and SIGKILL, and a channel that is closed when they move
// again. The channel of a nil Deadlines is nil.
func (d *Deadlines) At() (term, kill time.Duration, moved <-chan struct{}) {
	if d == nil {
		return 0, 0, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moved == nil {
		d.moved = make(chan struct{})
	}
	return d.term, d.kill, d.moved
}
