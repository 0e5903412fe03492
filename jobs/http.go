package jobs

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// HTTP is a [Handler] that sends one request: one, whatever becomes of it. A [Retry] around it
// sends more, and says so in Rota-Attempt.
//
// The outcome is [Succeeded] if the answer came whole and its status is in Expect. It is that of
// ctx's cause if ctx ended before that, and [Lost] if run.Kill was closed; what the server does with
// a request that it has got nobody can take back. Anything else is [Failed]: another status, which
// the reason names; a redirect, because following it would be a second request, most often a GET
// without the body (RFC 9110, 15.4); no connection, no answer, or one that breaks off. Of the answer
// to a failed request the reason has a first piece.
//
// # What is sent
//
// The request goes over a new connection, in HTTP/1.1, straight to the URL's host: HTTP_PROXY and
// its like play no part. Besides Headers it has
//
//	Idempotency-Key     JOB/TICK, the same on every host and for every attempt, also when the tick
//	                    is run again after a crash; of a manual run JOB/RUN
//	Rota-Fencing-Token  decimal
//	Rota-Run            the run's id
//	Rota-Tick           the tick, RFC 3339 in UTC
//	Rota-Attempt        from 1
//
// which [Environ] explains, and a User-Agent if there is none.
//
// # What bounds it
//
// Connecting may take 30 s, the answer's header 256 KiB. The answer may take as long as ctx lets
// it: a server that does its work while it answers is left to do so, and one that vanished is noticed
// by TCP after some minutes ([net.KeepAliveConfig]). Its body goes to run.Output as
// it comes, the first MiB of it; the rest is read, counted and dropped. When ctx ends, what the
// kernel has not sent yet is thrown away with the connection.
//
// An HTTP is not changed by Run; several goroutines may use it. It is printed without what may be
// secret in it.
type HTTP struct {
	// URL is http or https; [CheckURL] has the rule. A user and password in it are sent as basic
	// authorization (RFC 7617), unless Headers has another.
	URL string

	// Method is one that [CheckMethod] takes. "" is POST.
	Method string

	// Headers are those that [CheckHeader] takes. Host replaces the URL's in the request, not in
	// what is connected to.
	Headers map[string]string

	// Body is sent as it is. No Content-Type is guessed for it.
	Body string

	// Expect are the status codes that mean success; none: 200 to 299.
	Expect []int

	// TLS is for https: authorities, certificates. Nil: the system's authorities and no certificate
	// of one's own. It is not changed.
	TLS *tls.Config
}

var _ Handler = HTTP{}

// Run sends the request and returns when its answer has ended, or ctx has. ExitCode is always nil.
// Started is when the connection stood, and zero if it never did: then nothing was sent.
func (h HTTP) Run(ctx context.Context, run Run) Result {
	return h.run(ctx, run, new(net.Dialer).DialContext)
}

// A dialer connects, as [net.Dialer.DialContext] does.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (h HTTP) run(ctx context.Context, run Run, dial dialer) Result {
	if outcome, reason, over := endOf(ctx, run.Kill); over {
		return Result{Outcome: outcome, Reason: reason, Ended: time.Now()}
	}
	req, err := h.request(run)
	if err != nil {
		return Result{Outcome: Failed, Reason: err.Error(), Ended: time.Now()}
	}
	x := exchange{dial: dial, tls: h.TLS, body: firstBytes{to: run.Output, left: maxBodyBytes}}
	err = x.untilKill(ctx, run.Kill, req)
	x.body.finish()

	result := Result{Started: x.began, Ended: time.Now()}
	outcome, reason, over := endOf(ctx, run.Kill)
	switch {
	case err == nil && h.expects(x.status):
		result.Outcome = Succeeded
	case err == nil: // an answer that came whole counts, whatever happened at that instant
		result.Outcome, result.Reason = Failed, h.safe(x.refusal())
	case over:
		result.Outcome, result.Reason = outcome, reason+"; "+x.stage()
	default:
		result.Outcome, result.Reason = Failed, h.safe(x.failure(err))
	}
	return result
}

// untilKill is do, and ends it when kill is closed.
func (x *exchange) untilKill(ctx context.Context, kill <-chan struct{}, req *http.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-kill:
			cancel()
		case <-ctx.Done():
		}
	})
	return x.do(ctx, req)
}

func (h HTTP) expects(status int) bool {
	if len(h.Expect) == 0 {
		return 200 <= status && status <= 299
	}
	return slices.Contains(h.Expect, status)
}

// String is the method and the host: a path or a query may be secret too, as those of webhooks are.
func (h HTTP) String() string {
	u, err := parseURL(h.URL)
	if err != nil {
		return h.method() + " [not a URL]"
	}
	return h.method() + " " + u.Scheme + "://" + u.Host
}

// GoString is String.
func (h HTTP) GoString() string { return h.String() }
