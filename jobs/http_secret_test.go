package jobs

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// hidden is in every secret of these tests, and may be in nothing that is said.
const hidden = "3cr3t"

// What is said of a request has no credentials in it, also when its server repeats them.
func TestHTTP_SecretsAreNotShown(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		user, password, _ := r.BasicAuth()
		_, _ = fmt.Fprint(w, user, " ", password, " ", r.Header.Get("Authorization"), " ", r.Header.Get("X-Token"), " ", r.URL.RawQuery)
	})
	host := strings.TrimPrefix(url, "http://")
	token := map[string]string{"X-Token": "3cr3t-token", "Authorization": "Bearer 3cr3t"}
	for _, c := range []struct {
		name, reason string
		http         HTTP
	}{
		{"a server that repeats the password", "status 403 Forbidden: me [redacted] Basic [redacted]", HTTP{URL: "http://me:p%403cr3t@" + host}},
		{"one that repeats a token", "status 403 Forbidden: [redacted] [redacted]", HTTP{URL: url, Headers: token}},
		{"one that repeats the query", "status 403 Forbidden: [redacted]", HTTP{URL: url + "/?token=3cr3t&a=b"}},
		{"one that repeats it from the redirect", "", HTTP{URL: url + "/?3cr3t"}},
		{"a password that is not encoded", "url: is not a valid URL; in a user or password, percent-encode @ / # ? : and %", HTTP{URL: "http://me:3cr3t/x@" + host}},
		{"a scheme that is none", "url: is not an http or https URL; write https://HOST/PATH", HTTP{URL: "ftp://me:3cr3t@" + host}},
		{"a token that is no header", `header "X-Token": holds a line end or another control character`, HTTP{URL: url, Headers: map[string]string{"X-Token": "3cr3t\n"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run, _ := requestRun()
			if req, err := c.http.request(run); err == nil && req.URL.User != nil {
				t.Errorf("the request's URL has a user, %s", req.URL)
			}
			got := c.http.Run(t.Context(), run)
			reason := strings.Join(strings.Fields(got.Reason), " ")
			if got.Outcome != Failed || c.reason != "" && reason != c.reason {
				t.Errorf("Run = %s, %q; want failed, %q", got.Outcome, got.Reason, c.reason)
			}
			said := []string{got.Reason, fmt.Sprint(c.http), fmt.Sprintf("%v %+v %#v %s %q", c.http, c.http, c.http, c.http, c.http)}
			said = append(said, fmt.Sprintf("%+v %#v", struct{ H Handler }{c.http}, []Handler{c.http}))
			var log strings.Builder
			slog.New(slog.NewTextHandler(&log, nil)).Info("x", "handler", c.http)
			for _, s := range append(said, log.String()) {
				if strings.Contains(s, hidden) {
					t.Errorf("a secret is in %q", s)
				}
			}
		})
	}
}

func TestHTTP_String(t *testing.T) {
	for want, h := range map[string]HTTP{
		"POST https://example.org:8443": {URL: "https://me:x@example.org:8443/hooks/T0?x=y"},
		"GET http://example.org":        {URL: "http://example.org", Method: "GET"},
		"POST [not a URL]":              {URL: "http://me:x/y@example.org"},
	} {
		if got := h.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

// A reason is one line that can be printed anywhere, whatever the server sent.
func TestHTTP_ReasonsAreHarmless(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"several lines", "{\n  \"error\": \"queue is full\"\n}\n", `: { "error": "queue is full" }`},
		{"what a terminal acts on", "\x1b[2Jgone\r\x00\u202e\u0085x", ": [2Jgone x"},
		{"bytes that are no text", "caf\xe9", ": caf\uFFFD"},
		{"nothing but blanks", " \n\t", ":"},
		{"much", strings.Repeat("long ", 1000), ": " + strings.Repeat("long ", 1000)},
		{"much, with a character across the cut", "x" + strings.Repeat("ä", 1000), ": x" + strings.Repeat("ä", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, c.body)
			})
			run, _ := requestRun()
			got := HTTP{URL: url}.Run(t.Context(), run).Reason
			want := "status 500 Internal Server Error" + c.want
			if len(want) > maxReasonBytes {
				whole, cut := strings.CutSuffix(got, "…")
				if !cut || !strings.HasPrefix(want, whole) || len(whole) < maxReasonBytes-1 || len(whole) > maxReasonBytes || !utf8.ValidString(got) {
					t.Errorf("reason %q, want the first %d bytes of %q", got, maxReasonBytes, want)
				}
			} else if got != want {
				t.Errorf("reason %q, want %q", got, want)
			}
		})
	}
}

func TestCheckURL(t *testing.T) {
	for _, url := range []string{
		"http://example.org", "https://example.org/a/b?c=d", "HTTPS://EXAMPLE.ORG/", "http://me@example.org", "http://me:p%40ss@example.org:8080/",
		"http://127.0.0.1:65535/", "http://[::1]:8080/", "http://[::1]", "http://localhost:/", "http://xn--bcher-kva.example/ä b", "http://example.org/@x",
	} {
		if err := CheckURL(url); err != nil {
			t.Errorf("CheckURL(%q) = %v, want nil", url, err)
		}
	}
	for url, want := range map[string]string{
		"":                           "is not an http or https URL",
		"example.org/x":              "is not an http or https URL",
		"//example.org/x":            "is not an http or https URL",
		"http:example.org":           "is not an http or https URL",
		"unix:///run/x.sock":         "is not an http or https URL",
		"http://":                    "names no host",
		"http:///path":               "names no host",
		"http://:80/":                "names no host",
		"http://example.org:0/":      "has a port that is not",
		"http://example.org:65536":   "has a port that is not",
		"http://example.org:80a":     "is not a valid URL",
		"http://b\u00fccher.example": "has a host that is not ASCII",
		"http://example.org/#top":    "holds a #",
		"http://example.org/#":       "holds a #",
		"http://me:3#x@example":      "holds a #",
		"http://exa mple.org/":       "is not a valid URL",
		"http://example.org/\n":      "is not a valid URL",
		"http://example.org/%zz":     "is not a valid URL",
	} {
		if err := CheckURL(url); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("CheckURL(%q) = %v, want %s", url, err, want)
		}
	}
}

func TestCheckMethod(t *testing.T) {
	for method, good := range map[string]bool{
		"POST": true, "GET": true, "PURGE": true, "M-SEARCH": true,
		"": false, "post": false, "GET ": false, "GE\nT": false, "CONNECT": false, "P\u00d6ST": false,
	} {
		if err := CheckMethod(method); (err == nil) != good {
			t.Errorf("CheckMethod(%q) = %v, want it taken: %t", method, err, good)
		}
	}
}

func TestCheckHeader(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        string // "": nil
	}{
		{"X-Token", "3cr3t", ""},
		{"x_token!", "tab\tand \u00e4", ""},
		{"Authorization", "Bearer 3cr3t", ""},
		{"X-Empty", "", ""},
		{"Host", "example.org:8080", ""},
		{"Rotation", "x", ""},
		{"", "x", "is not the name of a header"},
		{"X Token", "x", "is not the name of a header"},
		{"X-Token:", "x", "is not the name of a header"},
		{"X-T\u00f6ken", "x", "is not the name of a header"},
		{"X-Token", "3cr3t\r\nX-Other: y", "holds a line end or another control character"},
		{"X-Token", "3cr3t\x00", "holds a line end or another control character"},
		{"X-Token", "3cr3t\x7f", "holds a line end or another control character"},
		{"idempotency-key", "x", "is set by Rota alone"},
		{"rota-run", "x", "is set by Rota alone"},
		{"ROTA-ANYTHING", "x", "is set by Rota alone"},
		{"content-length", "3", "belongs to the connection, which Rota makes"},
		{"Transfer-Encoding", "chunked", "belongs to the connection, which Rota makes"},
		{"Expect", "100-continue", "belongs to the connection, which Rota makes"},
		{"host", "3cr3t/x", "is not a host, as example.org or example.org:8080"},
		{"Host", "", "is not a host, as example.org or example.org:8080"},
	} {
		got := ""
		if err := CheckHeader(c.name, c.value); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("CheckHeader(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
