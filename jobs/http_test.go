package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// requestRun is a Run for an HTTP, with the Output that it writes to.
func requestRun() (Run, *Output) {
	out := NewOutput(64 << 10)
	return Run{
		Job: "hook", ID: "01JDRUN", Tick: time.Date(2026, 11, 29, 2, 0, 0, 0, time.UTC),
		Attempt: 1, Token: 1795968430725800, Output: out,
	}, out
}

// serve starts a server and returns its URL.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// wantHTTP compares what a Result says, except its times.
func wantHTTP(t *testing.T, what string, got Result, outcome Outcome, reason string) {
	t.Helper()
	if got.Outcome != outcome || got.Reason != reason || got.ExitCode != nil {
		t.Errorf("%s: got %s, %q, exit code %v; want %s, %q, none", what, got.Outcome, got.Reason, got.ExitCode, outcome, reason)
	}
}

func TestHTTP_WhatIsSent(t *testing.T) {
	type seen struct {
		*http.Request
		body string
	}
	requests := make(chan seen, 1)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{r, string(body)}
	})
	host := strings.TrimPrefix(url, "http://")
	at := time.Date(2026, 11, 29, 4, 0, 0, 250e6, time.FixedZone("east", 2*3600))
	for _, c := range []struct {
		name    string
		http    HTTP
		run     func(*Run)
		request string // method, host, target and body
		header  map[string]string
	}{
		{
			"the least there is",
			HTTP{URL: url},
			nil,
			"POST " + host + " / ",
			map[string]string{
				"Idempotency-Key": "hook/2026-11-29T02:00:00Z", "Rota-Tick": "2026-11-29T02:00:00Z", "Rota-Run": "01JDRUN",
				"Rota-Fencing-Token": "1795968430725800", "Rota-Attempt": "1", "User-Agent": "Rota", "Connection": "close",
				"Content-Length": "0", "Authorization": "", "Accept-Encoding": "", "Content-Type": "",
			},
		},
		{
			"all there is",
			HTTP{URL: url + "/a%2Fb?x=1&y", Method: "PATCH", Body: "{\n}", Headers: map[string]string{
				"content-type": "application/json", "User-Agent": "mine", "host": "hooks.example.org", "X-Empty": "",
			}},
			nil,
			"PATCH hooks.example.org /a%2Fb?x=1&y {\n}",
			map[string]string{"Content-Type": "application/json", "User-Agent": "mine", "Content-Length": "3", "Host": ""},
		},
		{
			"a retry has the key of its tick",
			HTTP{URL: url},
			func(r *Run) { r.Attempt = 3 },
			"POST " + host + " / ",
			map[string]string{"Idempotency-Key": "hook/2026-11-29T02:00:00Z", "Rota-Attempt": "3"},
		},
		{
			"a manual run has its own",
			HTTP{URL: url},
			func(r *Run) { r.Manual = true },
			"POST " + host + " / ",
			map[string]string{"Idempotency-Key": "hook/01JDRUN", "Rota-Tick": "2026-11-29T02:00:00Z"},
		},
		{
			"a tick is told in UTC, with its fraction",
			HTTP{URL: url},
			func(r *Run) { r.Tick = at },
			"POST " + host + " / ",
			map[string]string{"Idempotency-Key": "hook/2026-11-29T02:00:00.25Z", "Rota-Tick": "2026-11-29T02:00:00.25Z"},
		},
		{
			"the user of the URL is sent as basic authorization",
			HTTP{URL: strings.Replace(url, "://", "://Aladdin:open%20sesame@", 1), Method: "GET"},
			nil,
			"GET " + host + " / ",
			map[string]string{"Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, // RFC 7617, 2
		},
		{
			"and an authorization of one's own wins",
			HTTP{URL: strings.Replace(url, "://", "://me:x@", 1), Headers: map[string]string{"authorization": "Bearer y"}},
			nil,
			"POST " + host + " / ",
			map[string]string{"Authorization": "Bearer y"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, _ := requestRun()
			if c.run != nil {
				c.run(&run)
			}
			before := time.Now()
			got := c.http.Run(t.Context(), run)
			wantHTTP(t, "Run", got, Succeeded, "")
			if got.Started.Before(before) || got.Ended.Before(got.Started) || got.Ended.After(time.Now()) {
				t.Errorf("started %v, ended %v; want both within the call, in order", got.Started, got.Ended)
			}
			r := <-requests
			if s := fmt.Sprint(r.Method, " ", r.Host, " ", r.RequestURI, " ", r.body); s != c.request {
				t.Errorf("request %q, want %q", s, c.request)
			}
			for name, want := range c.header {
				if got := strings.Join(r.Header.Values(name), "|"); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// Case W03: what each status means, also those that are no exit code.
func TestHTTP_Statuses(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.WriteHeader(code)
	})
	for _, c := range []struct {
		code   int
		expect []int
		reason string // "": success
	}{
		{200, nil, ""},
		{201, nil, ""},
		{204, nil, ""},
		{299, nil, ""},
		{300, nil, "status 300 Multiple Choices"},
		{301, nil, "status 301 Moved Permanently"},
		{304, nil, "status 304 Not Modified"},
		{404, nil, "status 404 Not Found"},
		{429, nil, "status 429 Too Many Requests"},
		{500, nil, "status 500 Internal Server Error"},
		{503, nil, "status 503 Service Unavailable"},
		{599, nil, "status 599"},
		{404, []int{200, 404}, ""},
		{204, []int{200, 404}, "status 204 No Content"},
		{301, []int{301}, ""},
	} {
		t.Run(fmt.Sprint(c.code, c.expect), func(t *testing.T) {
			run, _ := requestRun()
			outcome := Succeeded
			if c.reason != "" {
				outcome = Failed
			}
			got := HTTP{URL: fmt.Sprint(url, "/", c.code), Expect: c.expect}.Run(t.Context(), run)
			wantHTTP(t, "Run", got, outcome, c.reason)
		})
	}
}

// Case W01: a redirect is a failure, whatever it would make of the request; nothing is sent on.
func TestHTTP_RedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	var asked atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			followed.Add(1)
			return
		}
		asked.Add(1)
		var code int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &code)
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(code)
	})
	withPassword := strings.Replace(other, "://", "://user:3cr3t@", 1) + "/3cr3t?token=3cr3t"
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, method := range []string{"POST", "GET"} {
			for to, host := range map[string]string{withPassword: other, "/there": url} {
				asked.Store(0)
				run, _ := requestRun()
				got := HTTP{
					URL: fmt.Sprintf("%s/%d?to=%s", url, code, to), Method: method, Body: "body",
					Headers: map[string]string{"Authorization": "Bearer 3cr3t"},
				}.Run(t.Context(), run)
				want := fmt.Sprintf("status %d %s: redirects to %s, which is not followed", code, http.StatusText(code), host)
				wantHTTP(t, fmt.Sprint(method, " to ", code), got, Failed, want)
				if asked.Load() != 1 || followed.Load() != 0 {
					t.Errorf("%s to %d: %d requests and %d after the redirect, want 1 and 0", method, code, asked.Load(), followed.Load())
				}
			}
		}
	}
	run, _ := requestRun()
	got := HTTP{URL: url + "/307?to=" + other, Expect: []int{307}}.Run(t.Context(), run)
	wantHTTP(t, "a redirect that is expected", got, Succeeded, "")
	if followed.Load() != 0 {
		t.Error("a redirect that is expected was followed")
	}
}

func TestHTTP_BodyIsTheOutput(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/failed" {
			w.WriteHeader(http.StatusBadGateway)
		}
		if r.URL.Path == "/much" {
			_, _ = w.Write(make([]byte, 256<<10))
		}
		_, _ = io.WriteString(w, "first\nsecond\x00\n")
	})
	for path, want := range map[string]string{"/": "", "/failed": "status 502 Bad Gateway: first second"} {
		run, out := requestRun()
		got := HTTP{URL: url + path}.Run(t.Context(), run)
		if got.Reason != want || out.String() != "first\nsecond\x00\n" {
			t.Errorf("Run of %s: reason %q, output %q; want %q and the body as it is", path, got.Reason, out, want)
		}
	}
	run, _ := requestRun()
	run.Output = nil
	wantHTTP(t, "without an Output", HTTP{URL: url}.Run(t.Context(), run), Succeeded, "")
	writes := 0
	run.Output = brokenWriter(func() { writes++ })
	wantHTTP(t, "with one that fails", HTTP{URL: url + "/much"}.Run(t.Context(), run), Succeeded, "")
	if writes != 1 {
		t.Errorf("an Output that failed got %d writes, want 1", writes)
	}
}

// A brokenWriter takes nothing.
type brokenWriter func()

func (w brokenWriter) Write([]byte) (int, error) {
	w()
	return 0, errors.New("broken")
}

// Case W04: of a huge body a piece is kept, the rest is read and forgotten.
func TestHTTP_HugeBody(t *testing.T) {
	const total = 256 << 20
	chunk := make([]byte, 1<<20)
	var gone atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent := 0
		for r.URL.Path == "/endless" || sent < total {
			n, err := w.Write(chunk)
			if sent += n; err != nil {
				gone.Store(true)
				return
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run, out := requestRun()
	wantHTTP(t, "256 MiB", HTTP{URL: url}.Run(t.Context(), run), Succeeded, "")
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
		t.Errorf("%d MiB were allocated for a body of 256 MiB, want less than 32", grown>>20)
	}
	note := fmt.Sprintf("\n[... %d bytes left out ...]\n", total-maxBodyBytes)
	if got := out.Total(); got != int64(maxBodyBytes+len(note)) || !strings.HasSuffix(out.String(), note) {
		t.Errorf("the output has %d bytes, want the first %d and %q", got, maxBodyBytes, note)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	run.Output = brokenWriter(func() { cancel(ErrTimedOut) })
	got := HTTP{URL: url + "/endless"}.Run(ctx, run)
	wantHTTP(t, "an endless body", got, TimedOut, "timed out; status 200 OK had come, and not all of the body")
	for deadline := time.Now().Add(10 * time.Second); !gone.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server could still write 10s after the run: the connection is open")
		}
	}
}

func TestHTTP_SharedByRuns(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Rota-Run"))
	})
	h := HTTP{URL: url, Headers: map[string]string{"X-A": "b"}}
	var runs sync.WaitGroup
	var want []string
	for i := range 16 {
		run, _ := requestRun()
		run.ID = fmt.Sprintf("run-%02d", i)
		want = append(want, run.ID)
		runs.Go(func() { wantHTTP(t, run.ID, h.Run(t.Context(), run), Succeeded, "") })
	}
	runs.Wait()
	if slices.Sort(seen); !slices.Equal(seen, want) {
		t.Errorf("the server saw %q, want %q", seen, want)
	}
}
