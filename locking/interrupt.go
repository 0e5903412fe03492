package locking

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// go-redis hears of a context's end before it sends a request, not while it waits for the answer. A
// request in a goroutine of its own would let the caller leave; but to hand over to one and back costs
// more than half of an acquisition, on two cores. So a Locker's own client wraps its connections, and
// whoever leaves ends the wait for the answer.

// requests are those under way whose callers may leave.
type requests struct {
	mu    sync.Mutex
	under map[*request]struct{}
}

// request is one. Its ownership token, which nothing else has, tells which connection it went out on.
type request struct {
	all   *requests
	token [tokenDigits]byte
	left  bool  // the caller has left
	wire  *wire // nil until it is written
}

// begin notes a request. It must be over before the caller lets go of it.
func (r *requests) begin(token Token) *request {
	q := &request{all: r}
	copy(q.token[:], token.Reveal())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under == nil {
		r.under = map[*request]struct{}{}
	}
	r.under[q] = struct{}{}
	return q
}

func (q *request) over() {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	delete(q.all.under, q)
}

// leave ends the request, and with it its connection: the answer may still come, and would be taken for
// that to the next request.
func (q *request) leave() {
	q.all.mu.Lock()
	defer q.all.mu.Unlock()
	q.left = true
	if q.wire != nil {
		q.wire.end()
	}
}

// leaveAll is leave for all.
func (r *requests) leaveAll() {
	r.mu.Lock()
	under := make([]*request, 0, len(r.under))
	for q := range r.under {
		under = append(under, q)
	}
	r.mu.Unlock()
	for _, q := range under {
		q.leave()
	}
}

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// dialer wraps the connections that dial makes, and gives each as long as a call takes.
func (r *requests) dialer(dial dialFunc, call time.Duration) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dialWithin(ctx, call, dial, network, addr)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: c, all: r}
		if raw, ok := c.(syscall.Conn); ok {
			return &rawWire{w, raw}, nil
		}
		return w, nil
	}
}

// dialWithin leaves a dial that takes longer than a call: go-redis' own waits for a TLS handshake as long
// as the options of the client that was copied say, whatever its context does. What it opens after that
// is closed.
func dialWithin(ctx context.Context, call time.Duration, dial dialFunc, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	type dialed struct {
		net.Conn
		err error
	}
	done := make(chan dialed)
	go func() {
		c, err := dial(ctx, network, addr)
		select {
		case done <- dialed{c, err}:
		case <-ctx.Done():
			if err == nil {
				_ = c.Close()
			}
		}
	}()
	select {
	case d := <-done:
		return d.Conn, d.err
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
}

// wire is a connection that can be ended while somebody waits for an answer on it.
type wire struct {
	net.Conn
	all *requests

	mu    sync.Mutex
	ended bool
}

// Write notes whose request it is.
func (w *wire) Write(p []byte) (int, error) {
	w.all.mu.Lock()
	for q := range w.all.under {
		if q.wire == nil && bytes.Contains(p, q.token[:]) {
			if q.left {
				w.all.mu.Unlock()
				return 0, os.ErrDeadlineExceeded
			}
			q.wire = w
		}
	}
	w.all.mu.Unlock()
	return w.Conn.Write(p)
}

// SetDeadline is net.Conn's, but for a connection that was ended.
func (w *wire) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return os.ErrDeadlineExceeded
	}
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline is net.Conn's, but for a connection that was ended.
func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return os.ErrDeadlineExceeded
	}
	return w.Conn.SetReadDeadline(t)
}

// end makes the read that goes on fail, and every other.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	_ = w.Conn.SetReadDeadline(time.Unix(1, 0))
}

// rawWire is one that go-redis can look at, whether the server has closed it while it was idle. One by
// TLS is none: to go-redis, whoever cannot be looked at is closed.
type rawWire struct {
	*wire
	syscall.Conn
}
