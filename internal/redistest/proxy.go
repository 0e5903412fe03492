package redistest

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// FaultProxy stands between clients and a Redis and makes faults on demand. It understands
// the protocol, so a fault hits exactly the commands that a [Match] picks. Without a fault
// it passes everything on and counts it. Its methods are safe for concurrent use.
//
// A fault that is set for n commands is used up by them, in the order in which they arrive
// over all connections; several faults are tried in the order in which they were set, and
// the first that fits a command is its fate.
type FaultProxy struct {
	t    testing.TB
	dial func() (net.Conn, error) // to the server
	addr string                   // "" if it is reached by a pipe
	wg   sync.WaitGroup           // the acceptor and three goroutines for each connection

	mu     sync.Mutex
	change *sync.Cond // of what follows
	faults []*fault
	links  map[*link]struct{}
	seen   [][]string
	hole   bool
	cut    bool
	closed bool
}

// Match picks commands by their arguments, the name first. Nil picks all but those with
// which a client opens a connection.
type Match func(args []string) bool

// Named picks commands by name, in any case.
func Named(names ...string) Match {
	return func(args []string) bool {
		return len(args) > 0 && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, args[0]) })
	}
}

// Evalsha picks the uses of a script by its digest, EVALSHA only.
func Evalsha(sha string) Match {
	return func(args []string) bool {
		return len(args) > 1 && strings.EqualFold(args[0], "evalsha") && args[1] == sha
	}
}

func (m Match) fits(args []string) bool {
	if m == nil {
		return !Named("hello", "auth", "client", "select", "readonly")(args)
	}
	return m(args)
}

// effect is what a fault does to a command.
type effect int

const (
	pass         effect = iota
	lateRequest         // the server gets it later
	lateReply           // the client gets the reply later
	dropReply           // the server handles it; the connection ends instead of the reply
	hangReply           // the server handles it; nothing comes back on this connection any more
	rejected            // the server never sees it; the client gets an error of the server
	closeRequest        // the server never sees it; the connection ends
)

type fault struct {
	match  Match
	left   int // commands; below 0: all
	effect effect
	delay  time.Duration
	reply  string
}

// Proxy starts a proxy in front of addr, on a free port of 127.0.0.1.
func Proxy(t testing.TB, addr string) *FaultProxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	p := newProxy(t, func() (net.Conn, error) {
		// Not t.Context: cleanups still use the proxy when that has ended.
		return new(net.Dialer).DialContext(context.Background(), "tcp", addr) //nolint:usetesting // see above
	})
	p.addr = listener.Addr().String()
	t.Cleanup(func() { _ = listener.Close() }) // before close, which waits
	p.wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	return p
}

// PipeProxy makes a proxy that is reached through [FaultProxy.Dial] only, without a port: it
// lives in the testing/synctest bubble that calls it. Dial is how it reaches the server,
// [miniredis.Miniredis.Dial] of [InBubble]'s.
func PipeProxy(t testing.TB, dial func() (net.Conn, error)) *FaultProxy {
	t.Helper()
	return newProxy(t, dial)
}

func newProxy(t testing.TB, dial func() (net.Conn, error)) *FaultProxy {
	p := &FaultProxy{t: t, dial: dial, links: map[*link]struct{}{}}
	p.change = sync.NewCond(&p.mu)
	t.Cleanup(p.close)
	return p
}

// Addr returns host:port of the proxy; "" of a [PipeProxy].
func (p *FaultProxy) Addr() string { return p.addr }

// Dial opens a connection through the proxy, whichever kind it is.
func (p *FaultProxy) Dial() (net.Conn, error) {
	if p.addr != "" {
		return new(net.Dialer).DialContext(context.Background(), "tcp", p.addr)
	}
	here, there := net.Pipe()
	p.serve(there)
	return here, nil
}

// Client returns a new client through the proxy, closed with the test.
func (p *FaultProxy) Client() *redis.Client { return pipeClient(p.t, p.Dial) }

// DropReplies lets the server handle the next n commands and ends their connections instead
// of passing the replies on. N below 0 is all, until Heal.
func (p *FaultProxy) DropReplies(n int, m Match) { p.add(fault{match: m, left: n, effect: dropReply}) }

// HangReplies lets the server handle the next n commands; their replies, and whatever else
// comes on the same connections, never arrive. The connections stay open.
func (p *FaultProxy) HangReplies(n int, m Match) { p.add(fault{match: m, left: n, effect: hangReply}) }

// DropRequests ends the connections of the next n commands; the server never sees them.
func (p *FaultProxy) DropRequests(n int, m Match) {
	p.add(fault{match: m, left: n, effect: closeRequest})
}

// Reject answers the next n commands with an error, such as "LOADING Redis is loading the
// dataset in memory"; the server never sees them.
func (p *FaultProxy) Reject(n int, m Match, answer string) {
	p.add(fault{match: m, left: n, effect: rejected, reply: "-" + answer + "\r\n"})
}

// DelayRequests holds each of the next n commands back for d, and what follows it on its
// connection. If the client gives up meanwhile the server gets the command all the same.
func (p *FaultProxy) DelayRequests(n int, m Match, d time.Duration) {
	p.add(fault{match: m, left: n, effect: lateRequest, delay: d})
}

// DelayReplies holds the replies to the next n commands back for d, and what follows them.
func (p *FaultProxy) DelayReplies(n int, m Match, d time.Duration) {
	p.add(fault{match: m, left: n, effect: lateReply, delay: d})
}

// BlackHole lets nothing through in either direction, as a network that loses every packet:
// connections stay open, new ones can be made, and Heal delivers what was sent meanwhile,
// also on connections that the client has given up.
func (p *FaultProxy) BlackHole() { p.set(func() { p.hole = true }) }

// Cut ends all connections and every new one at once, until Heal.
func (p *FaultProxy) Cut() {
	p.set(func() { p.cut = true })
	p.endLinks()
}

// Heal removes all faults.
func (p *FaultProxy) Heal() { p.set(func() { p.hole, p.cut, p.faults = false, false, nil }) }

// Count returns how many commands that fit m clients have sent so far, whatever became of
// them.
func (p *FaultProxy) Count(m Match) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, args := range p.seen {
		if m.fits(args) {
			n++
		}
	}
	return n
}

// Commands returns the commands that fit m which clients have sent so far, oldest first.
func (p *FaultProxy) Commands(m Match) [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out [][]string
	for _, args := range p.seen {
		if m.fits(args) {
			out = append(out, slices.Clone(args))
		}
	}
	return out
}

func (p *FaultProxy) add(f fault) { p.set(func() { p.faults = append(p.faults, &f) }) }

func (p *FaultProxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.change.Broadcast()
}

// arrived notes a command and returns its fate.
func (p *FaultProxy) arrived(args []string) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, args)
	for _, f := range p.faults {
		if f.left != 0 && f.match.fits(args) {
			f.left--
			return *f
		}
	}
	return fault{}
}

func (p *FaultProxy) close() {
	p.set(func() { p.closed = true })
	p.endLinks()
	p.wg.Wait()
}

func (p *FaultProxy) endLinks() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.end()
	}
}
