package locking

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// lockRights are what docs/deployments.md gives an ACL user for locks under the default prefix.
func lockRights(t *testing.T) []any {
	t.Helper()
	text, err := os.ReadFile("../docs/deployments.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER locker on >SECRET (.*)$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("docs/deployments.md has no such line")
	}
	return words(m[1])
}

// Every way to one server, each with all that a Locker does.
func TestLocker_WaysToAServer(t *testing.T) {
	t.Parallel()
	certs := redistest.Certificates(t)
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server, tlsAddr := redistest.TLSServer(t, certs, "--unixsocket", socket)
	server.Do(append([]any{"ACL", "SETUSER", "locker", "on", ">p@ss/w#rd"}, lockRights(t)...)...)
	conf := tlsConfig(t, certs.CA)
	conf.Certificates = []tls.Certificate{pair(t, certs)}
	for _, c := range []struct {
		name string
		opt  redis.Options
	}{
		{"RESP3", redis.Options{Addr: server.Addr(), Protocol: 3}},
		{"RESP2", redis.Options{Addr: server.Addr(), Protocol: 2}},
		{"a unix socket", redis.Options{Network: "unix", Addr: socket}},
		{"TLS with a client's certificate", redis.Options{Addr: tlsAddr, TLSConfig: conf}},
		{"an ACL user", redis.Options{Addr: server.Addr(), Username: "locker", Password: "p@ss/w#rd"}},
		{"an ACL user in RESP2", redis.Options{Addr: server.Addr(), Username: "locker", Password: "p@ss/w#rd", Protocol: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&c.opt)
			t.Cleanup(func() { _ = client.Close() })
			usesAll(t, client)
		})
	}
}

// Each of the documented rights is needed, but for those that only bring hints.
func TestLocker_NeedsEachOfItsRights(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	for _, word := range lockRights(t) {
		right := word.(string)
		if !strings.HasPrefix(right, "+") || right == "+@connection" || strings.HasSuffix(right, "subscribe") || right == "+publish" {
			continue // how to connect, and hints, on which nothing depends
		}
		server.Do("ACL", "SETUSER", "lacking", "reset", "on", "nopass", "allkeys", "allchannels", "+@all", "-"+right[1:])
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "lacking", Password: "x"})
		l := newLocker(t, client, Options{CallTimeout: 200 * time.Millisecond})
		err := l.Do(t.Context(), "lacking", func(ctx context.Context, lease *Lease) error { return lease.Renew(ctx, time.Minute) })
		_, held := l.TryAcquire(t.Context(), "lacking")
		_, waits := l.tryAcquire(t.Context(), t.Context(), "lacking", true)
		works := err == nil && held == nil && errors.Is(waits, ErrHeld)
		if works {
			t.Errorf("without %s: Do %v, TryAcquire %v, again %v; it works", right, err, held, waits)
		}
		_ = client.Close()
		server.Do("FLUSHALL")
		server.Do("SCRIPT", "FLUSH")
	}
}

// usesAll takes a lock, finds it held, waits for it, is told of its release, and keeps it.
func usesAll(t *testing.T, client *redis.Client) {
	t.Helper()
	name := t.Name()
	renewed := make(chan struct{}, 100)
	l := newLocker(t, client, Options{RenewEvery: 100 * time.Millisecond, Observe: func(e Event) {
		if e.Kind == EventRenewed {
			signal(renewed)
		}
	}})
	other := newLocker(t, client, Options{MaxBackoff: time.Hour})
	lease := mustAcquire(t, l, name)
	_, err := other.TryAcquire(t.Context(), name)
	if held, ok := errors.AsType[*HeldError](err); !ok || held.FencingToken != lease.FencingToken() {
		t.Errorf("TryAcquire of a held lock = %v, want HeldError with token %d", err, lease.FencingToken())
	}
	told := make(chan *Lease, 1)
	go func() {
		next, err := other.Acquire(t.Context(), name)
		if err != nil {
			t.Errorf("Acquire: %v", err)
		}
		told <- next
	}()
	select {
	case <-renewed:
	case <-time.After(5 * time.Second):
		t.Errorf("%v is not renewed: %v", lease, lease.Err())
	}
	if err := lease.Renew(t.Context(), time.Minute); err != nil {
		t.Errorf("Renew: %v", err)
	}
	time.Sleep(300 * time.Millisecond) // who waits has subscribed, and asks again in half a minute
	mustRelease(t, lease)
	select {
	case next := <-told:
		if next.FencingToken() <= lease.FencingToken() {
			t.Errorf("token %d, want above %d", next.FencingToken(), lease.FencingToken())
		}
		mustRelease(t, next)
	case <-time.After(5 * time.Second):
		t.Error("who waits was not told of the release")
	}
	fence, err := l.TakeValue(t.Context(), name, "mine", time.Second)
	if err != nil || fence <= lease.FencingToken() {
		t.Errorf("TakeValue = %d, %v", fence, err)
	}
	if s, own, err := l.QueryValue(t.Context(), name, "mine"); err != nil || !own || !s.Held {
		t.Errorf("QueryValue = %+v, %t, %v", s, own, err)
	}
	if err := l.ReleaseValue(t.Context(), name, "mine"); err != nil {
		t.Errorf("ReleaseValue: %v", err)
	}
}

// G10: what is wrong with TLS is said, at once, and nothing falls back to plain text.
func TestLocker_TLSMistakes(t *testing.T) {
	t.Parallel()
	certs := redistest.Certificates(t)
	server, addr := redistest.TLSServer(t, certs, "--tls-auth-clients", "no")
	expired := certs
	expired.Cert = certs.ExpiredCert
	_, expiredAddr := redistest.TLSServer(t, expired, "--tls-auth-clients", "no")
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	otherName := tlsConfig(t, certs.CA)
	otherName.ServerName = "elsewhere.test"
	for _, c := range []struct {
		name, addr string
		conf       *tls.Config
		want       string
	}{
		{"another authority", addr, tlsConfig(t, certs.StrangerCA), "certificate signed by unknown authority"},
		{"another name", addr, otherName, "not elsewhere.test"},
		{"expired", expiredAddr, tlsConfig(t, certs.CA), "expired"},
		{"no TLS there", server.Addr(), tlsConfig(t, certs.CA), ""}, // Redis waits for the end of what it takes for a line
		{"no TLS here", addr, nil, ""},
		{"silence", silent.Addr().String(), tlsConfig(t, certs.CA), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: c.addr, TLSConfig: c.conf})
			t.Cleanup(func() { _ = client.Close() })
			l := newLocker(t, client, Options{CallTimeout: 300 * time.Millisecond})
			began := time.Now()
			_, err := l.TryAcquire(t.Context(), "report")
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("TryAcquire = %v, want ErrUnavailable that says %q", err, c.want)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("TryAcquire took %s, want about twice CallTimeout", took)
			}
		})
	}
	if n := server.Do("DBSIZE"); n != int64(0) {
		t.Errorf("the server has %v keys, want none", n)
	}
}

// Each connection costs a handshake: they are kept.
func TestLocker_KeepsItsConnections(t *testing.T) {
	t.Parallel()
	certs := redistest.Certificates(t)
	server, tlsAddr := redistest.TLSServer(t, certs, "--tls-auth-clients", "no")
	for _, c := range []redis.Options{{Addr: server.Addr()}, {Addr: tlsAddr, TLSConfig: tlsConfig(t, certs.CA)}} {
		client := redis.NewClient(&c)
		t.Cleanup(func() { _ = client.Close() })
		l := newLocker(t, client, Options{})
		mustRelease(t, mustAcquire(t, l, "report"))
		before := received(t, server)
		for range 20 {
			mustRelease(t, mustAcquire(t, l, "report"))
		}
		if n := received(t, server) - before; n > 3 { // one is this test's
			t.Errorf("20 locks took %d connections, TLS: %t", n, c.TLSConfig != nil)
		}
	}
}

// received is how many connections a server has had.
func received(t *testing.T, s *redistest.ServerProc) (n int) {
	t.Helper()
	_, rest, _ := strings.Cut(fmt.Sprint(s.Do("INFO", "stats")), "total_connections_received:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func tlsConfig(t *testing.T, ca string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, ServerName: "redis.test"}
}

func pair(t *testing.T, c redistest.Certs) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func words(s string) []any {
	var all []any
	for w := range strings.FieldsSeq(s) {
		all = append(all, w)
	}
	return all
}
