package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An http job of the table reaches its server, once an attempt, with what the contract says it gets,
// and is tried again under the same token when it was refused. What it sent is in no line of the log.
func TestRun_SendsRequests(t *testing.T) {
	requests := make(chan *http.Request, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Rota-Attempt") == "1" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprintln(w, "queue is full")
		requests <- r
	}))
	defer s.Close()
	r := start(t)
	for !r.log.has("daemon started") {
		time.Sleep(10 * time.Millisecond)
	}
	r.write(fmt.Sprintf(`[jobs.hook]
schedule = "* * * * * *"
timeout = "10s"
retries = 1
retry_backoff = "0s"
http = { url = "%s/3cr3t", headers = { X-Token = "3cr3t" } }
`, strings.Replace(s.URL, "://", "://me:3cr3t@", 1)))
	r.reload <- syscall.SIGHUP
	var got [2]*http.Request
	for i := range got {
		select {
		case got[i] = <-requests:
		case <-time.After(20 * time.Second):
			t.Fatalf("request %d did not come in 20s", i+1)
		}
	}
	first, second := got[0].Header, got[1].Header
	key := "hook/" + first.Get("Rota-Tick")
	if first.Get("Idempotency-Key") != key || second.Get("Idempotency-Key") != key || first.Get("Rota-Run") == "" || first.Get("Rota-Fencing-Token") == "" {
		t.Errorf("headers %v, then %v; want one key, %q, a run and a token", first, second, key)
	}
	for _, name := range []string{"Rota-Run", "Rota-Fencing-Token", "X-Token", "Authorization"} {
		if a, b := first.Get(name), second.Get(name); a != b || a == "" {
			t.Errorf("%s: %q, then %q; want the same in both attempts", name, a, b)
		}
	}
	if second.Get("Rota-Attempt") != "2" {
		t.Errorf("Rota-Attempt: %q in the second request, want 2", second.Get("Rota-Attempt"))
	}
	for end := time.Now().Add(10 * time.Second); !r.log.has("attempt=2") && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if !r.log.has("outcome=succeeded") || !r.log.has("attempt=2") || !r.log.has("attempt 1 failed: status 503 Service Unavailable: queue is full") {
		t.Error("the log does not say that the run succeeded in its second attempt, and how the first one failed")
	}
	r.stop()
	if r.log.has("3cr3t") {
		t.Error("a secret of the request is in the log")
	}
}
