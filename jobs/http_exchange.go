package jobs

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	connectTimeout = 30 * time.Second // TLS handshake included
	maxHeaderBytes = 256 << 10        // of an answer, with the 1xx before it
	maxBodyBytes   = 1 << 20          // of an answer, that are handed on

	// lastWords is how long an answer may still come after sending failed: a server that refuses a
	// body says so before it hangs up.
	lastWords = time.Second
)

var (
	errHeaderTooLong = fmt.Errorf("its header is longer than %d KiB", maxHeaderBytes>>10)
	errHandshakeTime = fmt.Errorf("no TLS handshake within %s", connectTimeout)
)

// An exchange is one request and its answer, over a connection of its own.
//
// It is made of net/http's own message code without its Transport, because that sends a request
// again when it finds a kept connection closed, and takes an Idempotency-Key for the permission to
// do so with any method (net/http, "Transport"); in HTTP/2 it does so on fresh connections too, after
// GOAWAY and REFUSED_STREAM. Here there is nothing that could repeat anything, and no connection that
// outlives its request.
type exchange struct {
	dial dialer
	tls  *tls.Config

	began    time.Time // when the connection stood; zero: not yet
	answered bool      // status and redirect are known
	status   int
	redirect *url.URL // where to, if that was said
	body     firstBytes
}

// do sends the request and takes its answer. When ctx ends, it ends at once, with an error.
func (x *exchange) do(ctx context.Context, req *http.Request) error {
	raw, conn, err := x.connect(ctx, req.URL)
	if err != nil {
		return err
	}
	x.began = time.Now()
	// Closing is the one thing that ends both a read and a write, whatever they wait for.
	aborted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(aborted)
		abort(raw)
	})
	wrote := make(chan error, 1)
	var writer sync.WaitGroup
	// The answer may come before the request is out, so both go on at once.
	writer.Go(func() {
		err := req.Write(conn)
		if err != nil {
			_ = conn.SetReadDeadline(time.Now().Add(lastWords))
		}
		wrote <- err
	})
	err = x.receive(conn, req)
	if err != nil && !x.answered {
		select {
		case sending := <-wrote:
			// What came first counts: the other is its consequence.
			err = cmp.Or(sending, err)
		default:
		}
	}
	if !stop() {
		<-aborted
	}
	// Not conn: what TLS says in parting may wait for a peer that does not read.
	raw.Close()
	writer.Wait()
	return err
}

// connect returns the connection, and as conn the one to use, which is the same without TLS.
func (x *exchange) connect(ctx context.Context, u *url.URL) (raw, conn net.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	raw, err = x.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil || u.Scheme == "http" {
		return raw, raw, err
	}
	config := new(tls.Config)
	if x.tls != nil {
		config = x.tls.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, u.Hostname())
	// Said aloud, so that a server that prefers HTTP/2 does not speak it (RFC 7301).
	config.NextProtos = []string{"http/1.1"}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = errHandshakeTime
		}
		return nil, nil, err
	}
	return raw, secure, nil
}

// abort closes a connection without sending what is left to send, so that a server does not get a
// whole request from a run that has ended (SO_LINGER of 0, socket(7) and tcp(7)).
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// receive reads the answer: its status into x, its body to x.body.
func (x *exchange) receive(conn net.Conn, req *http.Request) error {
	in := &bounded{conn: conn, left: maxHeaderBytes}
	buffered := bufio.NewReader(in)
	var resp *http.Response
	for resp == nil {
		r, err := http.ReadResponse(buffered, req)
		if err != nil {
			// A line that was cut off reads like one that is wrong: why it was is the better reason.
			return cmp.Or(in.err, err)
		}
		// Closing a body reads what is left of it. When this returns there is nothing: it has ended,
		// or an error has, and that comes again.
		defer r.Body.Close()
		// 1xx are not the answer (RFC 9110, 15.2), but for a switch that nobody asked for.
		if r.StatusCode < 100 || r.StatusCode > 199 || r.StatusCode == http.StatusSwitchingProtocols {
			resp = r
		}
	}
	in.left = math.MaxInt64 // of its body all may come, see firstBytes
	x.answered, x.status = true, resp.StatusCode
	x.redirect, _ = resp.Location() // relative to the request's; nil if there is none
	_, err := io.Copy(&x.body, resp.Body)
	return err
}

// bounded reads at most left bytes; more is a header that is too long.
type bounded struct {
	conn net.Conn
	left int64
	err  error // that ended it
}

func (b *bounded) Read(p []byte) (n int, err error) {
	if b.left <= 0 {
		b.err = errHeaderTooLong
		return 0, b.err
	}
	n, b.err = b.conn.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, b.err
}

// firstBytes hands on what is written to it until left bytes are through, and counts the rest. It
// never fails: the answer is read whatever becomes of its copy.
type firstBytes struct {
	to      io.Writer // nil: nobody, or it has failed
	left    int
	dropped int64
	head    []byte // of the body, for the reason
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.head = appendUpTo(f.head, p[:min(len(p), excerptBytes-len(f.head))], excerptBytes)
	n := min(len(p), f.left)
	f.left -= n
	f.dropped += int64(len(p) - n)
	if n > 0 {
		f.print(p[:n])
	}
	return len(p), nil
}

func (f *firstBytes) print(p []byte) {
	if f.to == nil {
		return
	}
	if _, err := f.to.Write(p); err != nil {
		f.to = nil
	}
}

// finish says what was dropped, in the words of [Output].
func (f *firstBytes) finish() {
	if f.dropped > 0 {
		f.print(fmt.Appendf(nil, "\n[... %d bytes left out ...]\n", f.dropped))
	}
}
