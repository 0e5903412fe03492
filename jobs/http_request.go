package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request is what h sends for a run. Its errors show no value: each may be, or hold, a secret.
func (h HTTP) request(run Run) (*http.Request, error) {
	u, err := parseURL(h.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if err := CheckMethod(h.method()); err != nil {
		return nil, fmt.Errorf("method: %w", err)
	}
	header := http.Header{"User-Agent": {"Rota"}}
	for name, value := range h.Headers {
		if err := CheckHeader(name, value); err != nil {
			return nil, fmt.Errorf("header %q: %w", name, err)
		}
		header.Set(name, value)
	}

	// A server that has carried out this key may answer the next request with it as it did the first.
	// So two runs have one key exactly if they are for the same work.
	key := run.Job + "/" + tickOf(run)
	if run.Manual {
		key = run.Job + "/" + run.ID
	}
	header.Set("Idempotency-Key", key)
	header.Set("Rota-Fencing-Token", strconv.FormatInt(run.Token, 10))
	header.Set("Rota-Run", run.ID)
	header.Set("Rota-Tick", tickOf(run))
	header.Set("Rota-Attempt", strconv.Itoa(run.Attempt))

	req := &http.Request{
		Method: h.method(), URL: u, Host: cmp.Or(header.Get("Host"), u.Host), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Close: true, // there is no next request, and the server need not wait for one
	}
	if u.User != nil && header.Get("Authorization") == "" {
		password, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), password)
	}
	u.User = nil // nothing that prints the request shows it
	// The length is given, so that a request that breaks off is told from a whole one.
	if h.Body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(h.Body)), int64(len(h.Body))
	}
	return req, nil
}

func (h HTTP) method() string { return cmp.Or(h.Method, http.MethodPost) }

func tickOf(run Run) string { return run.Tick.UTC().Format(time.RFC3339Nano) }

// CheckURL says what is wrong with a URL for [HTTP], nil if nothing is: it is http or https, names a
// host in ASCII, and has no fragment, which is never sent. The error has no part of the URL in it:
// with one character of a password that is not percent-encoded, any part may be a piece of it.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (*url.URL, error) {
	const encode = "; in a user or password, percent-encode @ / # ? : and %"
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("is not a valid URL" + encode) // url.Error shows it
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, errors.New("is not an http or https URL; write https://HOST/PATH")
	case u.Hostname() == "":
		return nil, errors.New("names no host; write https://HOST/PATH")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("has a host that is not ASCII; write it in its xn-- form")
	case u.Fragment != "" || strings.HasSuffix(s, "#"):
		return nil, errors.New("holds a #" + encode)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("has a port that is not between 1 and 65535" + encode)
		}
	}
	return u, nil
}

// CheckMethod says what is wrong with a method for [HTTP], nil if nothing is: it is in capitals, as
// all registered ones are (they are told apart by case: RFC 9110, 9.1), and asks for no tunnel.
func CheckMethod(s string) error {
	switch {
	case s == http.MethodConnect:
		return errors.New("asks for a tunnel, not for an answer")
	case s == "" || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "":
		return errors.New("is not a method in capital letters")
	}
	return nil
}

// ofConnection are the headers that say how a message is framed or what comes after it.
func ofConnection() []string {
	return []string{
		"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade",
	}
}

// CheckHeader says what is wrong with a header for [HTTP], nil if nothing is. Its name is a token and
// its value has no control character but tabs (RFC 9110, 5.5 and 5.6.2); it is not one that Rota sets
// itself, and says nothing about the connection. The error does not show the value.
func CheckHeader(name, value string) error {
	switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
	case name == "" || strings.ContainsFunc(name, notInToken):
		return errors.New("is not the name of a header")
	case canonical == "Idempotency-Key" || strings.HasPrefix(canonical, "Rota-"):
		return errors.New("is set by Rota alone")
	case slices.Contains(ofConnection(), canonical):
		return errors.New("belongs to the connection, which Rota makes")
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return errors.New("holds a line end or another control character")
	case canonical == "Host" && !isHost(value):
		return errors.New("is not a host, as example.org or example.org:8080")
	}
	return nil
}

// isHost keeps what net/http would not send as it stands: it leaves Host empty then.
func isHost(s string) bool {
	u, err := parseURL("http://" + s)
	return err == nil && u.Host == s
}

// notInToken is the complement of tchar (RFC 9110, 5.6.2).
func notInToken(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}
