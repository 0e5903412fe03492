package locking

import (
	"bytes"
	"context"
	"errors"
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

// dialer wraps the connections that dial makes.
func (r *requests) dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: c, all: r}, nil
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

// SyscallConn is for go-redis, which looks with it whether the server has closed an idle connection.
func (w *wire) SyscallConn() (syscall.RawConn, error) {
	if c, ok := w.Conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
