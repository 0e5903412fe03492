package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler/ledger"
)

// hookServer answers as its path says, and keeps what it was asked.
type hookServer struct {
	*httptest.Server
	f *fleet

	mu        sync.Mutex
	asked     map[string][]hook // by job
	elsewhere atomic.Int32      // requests to where a redirect led
	open      atomic.Int32      // answers that are under way
}

// A hook is one request, and whether its run held the lock then.
type hook struct {
	key, token, attempt, body string
	held                      bool
}

func newHookServer(t *testing.T, f *fleet) *hookServer {
	t.Helper()
	h := &hookServer{f: f, asked: map[string][]hook{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	job, _, _ := strings.Cut(r.Header.Get("Idempotency-Key"), "/")
	token := r.Header.Get("Rota-Fencing-Token")
	lease, _ := h.f.client.Get(r.Context(), h.f.led.LeaseKey(job)).Result()
	h.mu.Lock()
	h.asked[job] = append(h.asked[job], hook{
		key: r.Header.Get("Idempotency-Key"), token: token, attempt: r.Header.Get("Rota-Attempt"),
		body: fmt.Sprint(r.Method, " ", r.ContentLength), held: strings.Contains(lease, "|"+token+"|"),
	})
	h.mu.Unlock()
	h.open.Add(1)
	defer h.open.Add(-1)

	var code int
	switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); {
	case r.URL.Path == "/elsewhere":
		h.elsewhere.Add(1)
	case r.URL.Path == "/endless":
		for chunk := make([]byte, 1<<20); err != nil; {
			if _, broken := w.Write(chunk); broken != nil {
				return
			}
		}
	case r.URL.Path == "/drip":
		for flush := http.NewResponseController(w); ; time.Sleep(100 * time.Millisecond) {
			if _, broken := w.Write([]byte("x")); broken != nil || flush.Flush() != nil {
				return
			}
		}
	case r.URL.Path == "/slow":
		select {
		case <-time.After(10 * time.Second):
		case <-r.Context().Done():
		}
	case r.URL.Path == "/late-success":
		if r.Header.Get("Rota-Attempt") != "3" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case code >= 300 && code < 400:
		w.Header().Set("Location", h.URL+"/elsewhere")
		w.WriteHeader(code)
	default:
		w.WriteHeader(code)
	}
}

func (h *hookServer) of(job string) []hook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[job]
}

// Whatever a server does, it is in the ledger with its own outcome and reason, and no code of a program; it
// got what there was to be sent, under a lock that was held, and no request of Rota's own making. Cases W01,
// W03, W04 and W05.
func TestFleet_Requests(t *testing.T) {
	t.Parallel() // most of it is waiting
	s := redistest.Server(t)
	f := newFleet(t, s.Client())
	f.host = "max_runs = 100\n"
	h := newHookServer(t, f)
	const follows = ": redirects to HOST, which is not followed"
	cases := []struct {
		name, path, lines string
		outcome, reason   string
		requests          int
		least             time.Duration
	}{
		{"w03-200", "/200", "", "succeeded", "", 1, 0},
		{"w03-204", "/204", "", "succeeded", "", 1, 0},
		{"w03-404", "/404", "", "failed", "status 404 Not Found", 1, 0},
		{"w03-429", "/429", "", "failed", "status 429 Too Many Requests", 1, 0},
		{"w03-500", "/500", "", "failed", "status 500 Internal Server Error", 1, 0},
		{"w03-503-tried-twice", "/503", "retries = 2\nretry_backoff = \"0s\"\n", "failed", "status 503 Service Unavailable", 3, 0},
		{"w03-status-that-is-no-exit-code", "/599", "", "failed", "status 599", 1, 0},
		{"w01-301", "/301", "", "failed", "status 301 Moved Permanently" + follows, 1, 0},
		{"w01-302", "/302", "", "failed", "status 302 Found" + follows, 1, 0},
		{"w01-307", "/307", "", "failed", "status 307 Temporary Redirect" + follows, 1, 0},
		{"w04-endless-body", "/endless", "timeout = \"2s\"\n", "timed_out", "timed out after 2s; status 200 OK had come, and not all of the body", 1, 2 * time.Second},
		{"w04-body-that-drips", "/drip", "timeout = \"2s\"\n", "timed_out", "timed out after 2s; status 200 OK had come, and not all of the body", 1, 2 * time.Second},
		{"w05-timeout-and-retries", "/slow", "timeout = \"2s\"\nretries = 2\n", "timed_out", "timed out after 2s; no answer had come", 1, 2 * time.Second},
		{"w05-success-in-the-end", "/late-success", "retries = 2\nretry_backoff = \"100ms\"\n", "succeeded", "", 3, 0},
	}
	table := ""
	for _, c := range cases {
		table += fmt.Sprintf("[jobs.%s]\nschedule = \"@yearly\"\n%shttp = { url = %q, body = \"12345\", headers = { Authorization = \"Bearer 3cr3t\" } }\n",
			c.name, c.lines, h.URL+c.path)
	}
	d := f.start("a", s.Addr(), table)
	f.awaitHosts(1)
	before := memoryKiB(t, d.cmd.Process.Pid, "VmRSS")
	asked := map[string]ledger.Request{}
	for _, c := range cases {
		id, err := f.led.Ask(t.Context(), ledger.Request{Job: c.name, Who: "tests"})
		if err != nil {
			t.Fatal(err)
		}
		asked[c.name] = ledger.Request{ID: id, Job: c.name}
	}
	for _, c := range cases {
		var got ledger.Entry
		eventually(t, 30*time.Second, func() error {
			e, ok, err := f.led.Answered(t.Context(), asked[c.name])
			if got = e; err == nil && (!ok || e.Outcome == ledger.OutcomeRunning) {
				err = fmt.Errorf("%s has not ended", c.name)
			}
			return err
		})
		if want := strings.ReplaceAll(c.reason, "HOST", h.URL); got.Outcome != c.outcome || got.Reason != want || got.ExitCode != nil {
			t.Errorf("%s: %s, code %v, %q; want %s, none, %q", c.name, got.Outcome, got.ExitCode, got.Reason, c.outcome, want)
		}
		if took := got.Ended.Sub(got.Started); took < c.least-100*time.Millisecond || took > c.least+slack {
			t.Errorf("%s took %v, want %v and little more", c.name, took, c.least)
		}
		hooks := h.of(c.name)
		if len(hooks) != c.requests || got.Attempt != c.requests {
			t.Errorf("%s: %d requests and attempt %d, want %d", c.name, len(hooks), got.Attempt, c.requests)
		}
		for i, r := range hooks {
			want := hook{fmt.Sprint(c.name, "/", got.Run), fmt.Sprint(got.Token), fmt.Sprint(i + 1), "POST 5", true}
			if r != want {
				t.Errorf("%s: request %d is %+v, want %+v", c.name, i+1, r, want)
			}
		}
		if n := s.Do("EXISTS", "{fleet}:lock:"+c.name); fmt.Sprint(n) != "0" {
			t.Errorf("%s: its lock is still held", c.name)
		}
	}
	if n := h.elsewhere.Load(); n > 0 {
		t.Errorf("%d redirects were followed, want none", n)
	}
	eventually(t, 10*time.Second, func() error {
		if n := h.open.Load(); n > 0 {
			return fmt.Errorf("the server still answers %d requests: their connections are open", n)
		}
		return nil
	})
	if grown := memoryKiB(t, d.cmd.Process.Pid, "VmHWM") - before; grown > 32<<10 && raceFlag != "-race" {
		t.Errorf("the daemon grew by %d KiB, want less than 32 MiB", grown)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if strings.Contains(d.log.String(), "3cr3t") {
		t.Error("a secret of a request is in the log")
	}
}
