package redistest

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// link is one client's connection through a proxy. Three goroutines serve it, owned by the
// proxy: one reads commands, one reads replies, and one writes what the client gets. The
// last has a queue of any length before it, so that neither side ever waits for the other
// to read: on a net.Pipe, which has no buffer, a client that writes a long pipeline and a
// server that answers its beginning would wait for each other.
type link struct {
	p              *FaultProxy
	client, server net.Conn
	over           chan struct{}
	once           sync.Once

	mu      sync.Mutex
	change  *sync.Cond // of out and closing
	waiting []fault    // the fates of the commands that have no reply yet, oldest first
	out     [][]byte   // to the client
	closing bool       // nothing will be added to out
	mute    bool       // nothing more reaches the client, although the connection stays
	plain   bool       // pub/sub or MONITOR: replies answer no command
}

// serve connects a client to the server, unless the proxy is cut.
func (p *FaultProxy) serve(client net.Conn) {
	// Without the lock: a server that publishes, and takes no connection meanwhile, waits for a subscriber's
	// link, and that for the lock.
	server, err := p.dial()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.cut || p.closed {
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	l := &link{p: p, client: client, server: server, over: make(chan struct{})}
	l.change = sync.NewCond(&l.mu)
	p.links[l] = struct{}{}
	p.wg.Go(func() {
		l.requests()
		l.end()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	})
	p.wg.Go(func() {
		l.replies()
		l.push(nil, true)
	})
	p.wg.Go(func() {
		l.write()
		l.end()
	})
}

// end closes both sides. It is not called with a lock held.
func (l *link) end() {
	l.once.Do(func() {
		close(l.over)
		_ = l.client.Close()
		_ = l.server.Close()
		l.push(nil, true)
		l.p.set(func() {}) // wakes who waits in a black hole
	})
}

// requests passes commands on to the server.
func (l *link) requests() {
	r := bufio.NewReader(l.client)
	for {
		args, raw, err := readCommand(r)
		if err != nil {
			return
		}
		f := l.p.arrived(args)
		// A client that gives up meanwhile is not noticed here: what it has sent is on its way,
		// as it would be in a network.
		if f.effect == lateRequest && !l.pause(f.delay) {
			return
		}
		if !l.throughHole() || f.effect == closeRequest {
			return
		}
		// Noted before it is sent, for the reply may be faster than this goroutine.
		l.mu.Lock()
		switch {
		case Named("subscribe", "psubscribe", "ssubscribe", "monitor")(args):
			l.plain = true
		case !l.plain:
			l.waiting = append(l.waiting, f)
		}
		l.answerRejected()
		l.mu.Unlock()
		if f.effect == rejected {
			continue
		}
		if _, err := l.server.Write(raw); err != nil {
			return
		}
	}
}

// replies passes replies on to the client.
func (l *link) replies() {
	r := bufio.NewReader(l.server)
	for {
		raw, push, err := readReply(r)
		if err != nil || !l.throughHole() {
			return
		}
		var f fault
		l.mu.Lock()
		if !push && !l.plain && len(l.waiting) > 0 {
			f, l.waiting = l.waiting[0], l.waiting[1:]
		}
		l.mute = l.mute || f.effect == hangReply // for good: the next reply would pass for this one
		l.mu.Unlock()
		if f.effect == dropReply || f.effect == lateReply && !l.pause(f.delay) {
			return
		}
		l.push(raw, false)
	}
}

// push adds a reply to what the client gets, and says whether it is the last.
func (l *link) push(raw []byte, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mute && !l.closing && raw != nil {
		l.out = append(l.out, raw)
	}
	l.closing = l.closing || last
	l.answerRejected()
	l.change.Signal()
}

// answerRejected answers the commands whose turn it is and that the server never saw.
// Called with l.mu held.
func (l *link) answerRejected() {
	for len(l.waiting) > 0 && l.waiting[0].effect == rejected {
		if !l.mute && !l.closing {
			l.out = append(l.out, []byte(l.waiting[0].reply))
		}
		l.waiting = l.waiting[1:]
	}
	l.change.Signal()
}

// write writes what the client gets, until there will be no more.
func (l *link) write() {
	for {
		l.mu.Lock()
		for len(l.out) == 0 && !l.closing {
			l.change.Wait()
		}
		if len(l.out) == 0 {
			l.mu.Unlock()
			return
		}
		next := l.out[0]
		l.out = l.out[1:]
		l.mu.Unlock()
		if _, err := l.client.Write(next); err != nil {
			return
		}
	}
}

// pause waits for d; false if the connection has ended meanwhile.
func (l *link) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.over:
		return false
	}
}

// throughHole waits while the proxy is a black hole; false if the connection has ended.
func (l *link) throughHole() bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for l.p.hole && !l.isOver() {
		l.p.change.Wait()
	}
	return !l.isOver()
}

func (l *link) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}
