package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// piped returns a dialer whose connections end in serve, all inside a bubble. The end of a serve
// closes its connection. wait returns when all have ended.
func piped(serve func(conn net.Conn)) (dial dialer, wait func()) {
	var served sync.WaitGroup
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		served.Go(func() {
			defer theirs.Close()
			serve(theirs)
		})
		return ours, nil
	}, served.Wait
}

// A serverStage is a server that goes no further, and what is said of a run that ends then.
type serverStage struct {
	name, url string
	serve     func(conn net.Conn) // nil: there is no connection
	status    int
	says      string
}

func stages() []serverStage {
	drip := func(head string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, err := io.WriteString(conn, head)
			for ; err == nil; time.Sleep(time.Second) {
				_, err = io.WriteString(conn, "x")
			}
		}
	}
	hang := func(read int64) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = io.CopyN(io.Discard, conn, read)
			// A pipe has no buffer, and so no end that is seen without reading.
			time.Sleep(time.Hour)
		}
	}
	const none, unanswered = "; no connection had been made", "; no answer had come"
	return []serverStage{
		{"connecting", "http://a.example", nil, 0, none},
		{"the TLS handshake", "https://a.example", hang(1), 0, none},
		{"the header of the request", "http://a.example", hang(1), 0, unanswered},
		{"the body of the request", "http://a.example", hang(4096), 0, unanswered},
		{"the answer", "http://a.example", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, 0, unanswered},
		{"a header that drips", "http://a.example", drip("HTTP/1.1 200 OK\r\nX: "), 0, unanswered},
		{"a body that drips", "http://a.example", drip("HTTP/1.1 200 OK\r\n\r\n"), 200, "; status 200 OK had come, and not all of the body"},
		{"a failure that drips", "http://a.example", drip("HTTP/1.1 500 x\r\n\r\n"), 500, "; status 500 Internal Server Error had come, and not all of the body"},
	}
}

// Whatever a server does, the run ends at the instant it has to. Cases W04 and W05 are among these.
func TestHTTP_EndsAtOnce(t *testing.T) {
	causes := []struct {
		err     error // nil: run.Kill alone
		outcome Outcome
	}{
		{fmt.Errorf("%w after 5.5s", ErrTimedOut), TimedOut},
		{ErrCancelled, Cancelled},
		{ErrInterrupted, Interrupted},
		{ErrLost, Lost},
		{nil, Lost},
	}
	for _, s := range stages() {
		for _, c := range causes {
			t.Run(fmt.Sprint(s.name, "/", c.err), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					run, out := requestRun()
					kill := make(chan struct{})
					run.Kill = kill
					time.AfterFunc(5500*time.Millisecond, func() {
						if c.err == nil {
							close(kill)
						} else {
							cancel(c.err)
						}
					})
					dial, wait := piped(s.serve)
					if s.serve == nil {
						dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
							<-ctx.Done()
							return nil, ctx.Err()
						}
					}
					start := time.Now()
					got := HTTP{URL: s.url, Body: strings.Repeat("x", 64<<10)}.run(ctx, run, dial)
					why := "lease lost"
					if c.err != nil {
						why = words(c.err)
					}
					wantHTTP(t, "Run", got, c.outcome, why+s.says)
					if took := time.Since(start); took != 5500*time.Millisecond || !got.Ended.Equal(time.Now()) {
						t.Errorf("Run took %v and says it ended %v before it did, want 5.5s and 0s", took, time.Since(got.Ended))
					}
					if s.status != 0 && out.Total() != 6 {
						t.Errorf("the output has %d bytes, want the 6 that had come", out.Total())
					}
					wait()
				})
			})
		}
	}
}

// Nothing but the end of the run bounds an answer: a server may work for an hour before it answers,
// and for another while it does.
func TestHTTP_WaitsForItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, wait := piped(func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			time.Sleep(time.Hour)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			time.Sleep(time.Hour)
			_, _ = io.WriteString(conn, "k")
		})
		run, out := requestRun()
		start := time.Now()
		got := HTTP{URL: "http://a.example"}.run(t.Context(), run, dial)
		wantHTTP(t, "Run", got, Succeeded, "")
		if took := got.Ended.Sub(got.Started); took != 2*time.Hour || !got.Started.Equal(start) || out.String() != "ok" {
			t.Errorf("started %v after the call, took %v, output %q; want at once, 2h0m0s, ok", got.Started.Sub(start), took, out)
		}
		wait()
	})
}

// An answer ends the run, also when its server takes no more of the request.
func TestHTTP_AnswerBeforeTheRequestIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, wait := piped(func(conn net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "HTTP/1.1 503 x\r\nContent-Length: 2\r\n\r\nno")
			time.Sleep(time.Hour)
		})
		run, _ := requestRun()
		start := time.Now()
		got := HTTP{URL: "http://a.example", Body: strings.Repeat("x", 64<<10)}.run(t.Context(), run, dial)
		wantHTTP(t, "Run", got, Failed, "status 503 Service Unavailable: no")
		if took := time.Since(start); took != 0 {
			t.Errorf("Run took %v, want no time", took)
		}
		wait()
	})
}

func TestHTTP_ConnectingIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		url, reason string
		dial        func(serve dialer) dialer
	}{
		"to a host that drops packets": {
			"http://a.example", "no connection: context deadline exceeded",
			func(dialer) dialer {
				return func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			},
		},
		"to one that says nothing": {
			"https://a.example", "no connection: no TLS handshake within 30s",
			func(serve dialer) dialer { return serve },
		},
		"both together": {
			"https://a.example", "no connection: no TLS handshake within 30s",
			func(serve dialer) dialer {
				return func(ctx context.Context, network, address string) (net.Conn, error) {
					time.Sleep(20 * time.Second)
					return serve(ctx, network, address)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serve, wait := piped(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
				run, _ := requestRun()
				start := time.Now()
				got := HTTP{URL: c.url}.run(t.Context(), run, c.dial(serve))
				wantHTTP(t, "Run", got, Failed, c.reason)
				if took := time.Since(start); took != connectTimeout || !got.Started.IsZero() {
					t.Errorf("Run took %v, started %v; want %v, never", took, got.Started, connectTimeout)
				}
				wait()
			})
		})
	}
}

// A deafServer connection takes nothing, and has nothing to say.
type deafServer struct{ net.Conn }

func (deafServer) Write([]byte) (int, error) { return 0, errors.New("write: broken pipe") }

// A request that cannot be written has no answer to wait for, but for what is on its way already.
func TestHTTP_RequestThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial, wait := piped(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
		run, _ := requestRun()
		start := time.Now()
		got := HTTP{URL: "http://a.example"}.run(t.Context(), run, func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return deafServer{conn}, err
		})
		wantHTTP(t, "Run", got, Failed, "no answer: write: broken pipe")
		if took := time.Since(start); took != lastWords {
			t.Errorf("Run took %v, want %v", took, lastWords)
		}
		wait()
	})
}

func TestHTTP_EndedBefore(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(ErrInterrupted)
	closed := make(chan struct{})
	close(closed)
	for _, c := range []struct {
		name    string
		ctx     context.Context
		kill    <-chan struct{}
		outcome Outcome
	}{
		{"the context", over, nil, Interrupted},
		{"the lease", t.Context(), closed, Lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, _ := requestRun()
			run.Kill = c.kill
			got := HTTP{URL: "http://a.example"}.run(c.ctx, run, func(context.Context, string, string) (net.Conn, error) {
				t.Error("a connection was made")
				return nil, net.ErrClosed
			})
			if got.Outcome != c.outcome || !got.Started.IsZero() || got.Ended.IsZero() {
				t.Errorf("Run = %+v; want %s, not started, ended", got, c.outcome)
			}
		})
	}
}
