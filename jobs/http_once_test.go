package jobs

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A peer takes connections as no HTTP server would, and counts what comes.
type peer struct {
	net.Listener
	conns, requests atomic.Int32
}

// listen starts a peer, which gives each connection to serve and closes it then.
func listen(t *testing.T, serve func(p *peer, conn *net.TCPConn)) *peer {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{Listener: l}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			serve(p, conn.(*net.TCPConn))
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return p
}

func (p *peer) url() string { return "http://" + p.Addr().String() }

// request reads one whole request, if there is one.
func (p *peer) request(in *bufio.Reader) {
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if _, err = io.Copy(io.Discard, req.Body); err == nil {
		p.requests.Add(1)
	}
}

// reset closes a connection as a crash does.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

// A request is sent once, however its server answers it. Package net/http would send most of these
// twice: an Idempotency-Key is enough for it.
func TestHTTP_OneRequestARun(t *testing.T) {
	const fine = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	say := func(text string) func(*peer, *net.TCPConn, *bufio.Reader) {
		return func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			_, _ = io.WriteString(conn, text)
		}
	}
	for _, c := range []struct {
		name   string
		serve  func(p *peer, conn *net.TCPConn, in *bufio.Reader)
		reason string // "": success
	}{
		{"it answers", say(fine), ""},
		{"it keeps the connection, and resets it when the next request is written", func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			_, _ = io.WriteString(conn, fine)
			p.request(in)
			reset(conn)
		}, ""},
		{"it keeps the connection, and closes it when the next request is written", func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			_, _ = io.WriteString(conn, fine)
			p.request(in)
		}, ""},
		{"it resets the connection after the request", func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			reset(conn)
		}, "no answer: read: connection reset by peer"},
		{"it closes the connection after the request", say(""), "no answer: the server closed the connection"},
		{"it breaks off in the header", say("HTTP/1.1 200 OK\r\nContent-"), "no answer: the server closed the connection"},
		{"it breaks off in the body", say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"), "status 200 OK, but its body broke off: the server closed the connection"},
		{"it breaks off between chunks", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"), "status 200 OK, but its body broke off: the server closed the connection"},
		{"it asks for authorization", say("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), "status 401 Unauthorized"},
		{"it took too long itself", say("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), "status 408 Request Timeout"},
		{"it sends elsewhere by 421", say("HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n"), "status 421 Misdirected Request"},
		{"it answers after hints", say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + fine), ""},
		{"it answers twice", say(fine + fine), ""},
		{"it switches protocols", say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), "status 101 Switching Protocols"},
		{"it speaks something else", say("SSH-2.0-OpenSSH_9.2\r\n"), `no answer: malformed HTTP response "SSH-2.0-OpenSSH_9.2"`},
		{"its header does not end", func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for line := "X-Filler: " + strings.Repeat("x", 1000) + "\r\n"; err == nil; {
				_, err = io.WriteString(conn, line)
			}
		}, "no answer: its header is longer than 256 KiB"},
		{"its hints do not end", func(p *peer, conn *net.TCPConn, in *bufio.Reader) {
			p.request(in)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(conn, "HTTP/1.1 102 Processing\r\n\r\n")
			}
		}, "no answer: its header is longer than 256 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := listen(t, func(p *peer, conn *net.TCPConn) { c.serve(p, conn, bufio.NewReader(conn)) })
			for n := range int32(2) { // the second one would go over a connection that was kept
				run, _ := requestRun()
				outcome := Succeeded
				if c.reason != "" {
					outcome = Failed
				}
				got := HTTP{URL: p.url(), Body: "body"}.Run(t.Context(), run)
				wantHTTP(t, "Run", got, outcome, c.reason)
				if got.Started.IsZero() {
					t.Error("Started is zero, and the request was sent")
				}
				if requests, conns := p.requests.Load(), p.conns.Load(); requests != n+1 || conns != n+1 {
					t.Errorf("after run %d: %d requests over %d connections, want %d over as many", n+1, requests, conns, n+1)
				}
			}
		})
	}
}

// A server that refuses a body before it has read it is heard.
func TestHTTP_AnswerBeforeTheRequestIsOut(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, "at most 1 MiB")
	})
	run, _ := requestRun()
	got := HTTP{URL: url, Body: strings.Repeat("x", 32<<20)}.Run(t.Context(), run)
	wantHTTP(t, "Run", got, Failed, "status 413 Request Entity Too Large: at most 1 MiB")
}

// What a run has not sent when it ends is never sent: its server must not get a whole request from
// a host that lost the lease.
func TestHTTP_NothingIsSentAfterTheEnd(t *testing.T) {
	const size = 256 << 10 // fits into what the kernel takes from a sender, see tcp_wmem in tcp(7)
	got := make(chan int64, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan struct{})
	control := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
		})
	}}
	l, err := control.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer conn.Close()
		time.Sleep(200 * time.Millisecond) // for the kernel to take all of it
		cancel(ErrLost)
		<-ended
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, _ := io.Copy(io.Discard, conn)
		got <- n
	}()
	run, _ := requestRun()
	result := HTTP{URL: "http://" + l.Addr().String(), Body: strings.Repeat("x", size)}.Run(ctx, run)
	close(ended)
	wantHTTP(t, "Run", result, Lost, "lease lost; no answer had come")
	if n := <-got; n < 0 || n >= size {
		t.Errorf("the server got %d bytes after the run had ended, want less than the %d of the body", n, size)
	}
}

func TestHTTP_NoConnection(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	run, out := requestRun()
	got := HTTP{URL: "http://me:3cr3t@" + addr}.Run(t.Context(), run)
	wantHTTP(t, "Run", got, Failed, "no connection: dial tcp "+addr+": connect: connection refused")
	if !got.Started.IsZero() || got.Ended.IsZero() || out.Total() > 0 {
		t.Errorf("Run = %+v, output %q; want it not started, ended, no output", got, out)
	}
}

// Case W07: the daemon's proxies are not the jobs'.
func TestHTTP_GoesStraightToItsHost(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	for url, want := range map[string]string{
		"http://example.org":        "example.org:80",
		"https://example.org":       "example.org:443",
		"http://example.org:8080/x": "example.org:8080",
		"http://[2001:db8::1]/":     "[2001:db8::1]:80",
		"http://127.0.0.1:3":        "127.0.0.1:3",
	} {
		var dialled []string
		run, _ := requestRun()
		HTTP{URL: url}.run(t.Context(), run, func(_ context.Context, network, address string) (net.Conn, error) {
			dialled = append(dialled, network+" "+address)
			return nil, io.ErrClosedPipe
		})
		if got := strings.Join(dialled, ", "); got != "tcp "+want {
			t.Errorf("Run of %s connected to %s, want %s, once", url, got, want)
		}
	}
}

func TestHTTP_TLS(t *testing.T) {
	var reached atomic.Int32
	var proto atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		proto.Store(r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer s.Close()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())

	for _, c := range []struct {
		name, url string
		tls       *tls.Config
		reason    string // "": success; else its beginning
	}{
		{"an authority that is trusted, and HTTP/1.1 to a server that has HTTP/2", s.URL, &tls.Config{RootCAs: pool}, ""},
		{"an authority that is not", s.URL, nil, "no connection: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"a certificate for another host", s.URL, &tls.Config{RootCAs: pool, ServerName: "rota.invalid"}, "no connection: tls: failed to verify certificate: x509: certificate is valid for "},
		{"a server without TLS", strings.Replace(plain, "http", "https", 1), nil, "no connection: tls: first record does not look like a TLS handshake"},
		{"a server that wants TLS", strings.Replace(s.URL, "https", "http", 1), nil, "status 400 Bad Request: Client sent an HTTP request to an HTTPS server."},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached.Store(0)
			var before tls.Config
			if c.tls != nil {
				before = tls.Config{RootCAs: c.tls.RootCAs, ServerName: c.tls.ServerName}
			}
			run, _ := requestRun()
			got := HTTP{URL: c.url, TLS: c.tls}.Run(t.Context(), run)
			switch {
			case c.reason == "":
				wantHTTP(t, "Run", got, Succeeded, "")
				if reached.Load() != 1 || proto.Load() != "HTTP/1.1" {
					t.Errorf("%d requests in %v, want 1 in HTTP/1.1", reached.Load(), proto.Load())
				}
			case got.Outcome != Failed || !strings.HasPrefix(got.Reason, c.reason) || reached.Load() != 0:
				t.Errorf("Run = %s, %q and %d requests; want failed, %q and none", got.Outcome, got.Reason, reached.Load(), c.reason)
			}
			if c.tls != nil && (c.tls.ServerName != before.ServerName || c.tls.NextProtos != nil) {
				t.Errorf("Run changed the TLS that it was given to %s", fmt.Sprint(c.tls.ServerName, c.tls.NextProtos))
			}
		})
	}
}
