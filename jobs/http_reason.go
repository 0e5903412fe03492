package jobs

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	excerptBytes   = 2 << 10 // of an answer's body, that a reason may quote from
	maxReasonBytes = 300
)

// statusText is the code with its name. The one that the server gave could be any text.
func statusText(code int) string {
	return strings.TrimSpace(fmt.Sprintf("status %03d %s", code, http.StatusText(code)))
}

// refusal is the reason of an answer whose status is not expected.
func (x *exchange) refusal() string {
	reason := statusText(x.status)
	redirects := []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	}
	switch {
	case slices.Contains(redirects, x.status) && x.redirect != nil:
		// No more than the host: the rest is as likely to hold a secret as a URL of ours.
		return fmt.Sprintf("%s: redirects to %s://%s, which is not followed", reason, x.redirect.Scheme, x.redirect.Host)
	case len(x.body.head) > 0: // mostly says more than the status does
		return reason + ": " + string(x.body.head)
	}
	return reason
}

// failure is the reason of an exchange that failed by itself.
func (x *exchange) failure(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op != "dial" {
		err = op.Err // without the addresses of a connection that stood: its port is of no use to anybody
	}
	what := err.Error()
	// Before the header is whole net/http calls the end unexpected, as it does in a body.
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		what = "the server closed the connection"
	}
	switch {
	case x.began.IsZero():
		return "no connection: " + what
	case !x.answered:
		return "no answer: " + what
	}
	return statusText(x.status) + ", but its body broke off: " + what
}

// stage is how far an exchange had come that was ended from outside.
func (x *exchange) stage() string {
	switch {
	case x.began.IsZero():
		return "no connection had been made"
	case !x.answered:
		return "no answer had come"
	}
	return statusText(x.status) + " had come, and not all of the body"
}

// safe makes a reason of what may be quoted from a server: one line of moderate length, nothing
// that a terminal acts on, and no secret of h that the server repeated.
func (h HTTP) safe(reason string) string {
	for _, secret := range h.secrets() {
		reason = strings.ReplaceAll(reason, secret, "[redacted]")
	}
	reason = strings.Map(func(r rune) rune { // which makes U+FFFD of what is no UTF-8
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, reason)
	reason = strings.Join(strings.Fields(reason), " ")
	// It is a field of the ledger and of every list of runs; all of it is in the output.
	if len(reason) <= maxReasonBytes {
		return reason
	}
	cut := maxReasonBytes
	for !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut] + "…"
}

// secrets are the texts in h that give access to something, longest first, so that none is
// replaced in part. Very short ones are left out: they are in any text.
func (h HTTP) secrets() []string {
	var all []string
	for name, value := range h.Headers {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Accept", "Accept-Language", "Content-Type", "Host", "User-Agent":
			continue // common words, and no credentials
		}
		_, credentials, _ := strings.Cut(value, " ") // after the scheme of Authorization
		all = append(all, value, credentials)
	}
	if u, err := url.Parse(h.URL); err == nil {
		password, _ := u.User.Password()
		all = append(all, password, u.RawQuery)
		for _, values := range u.Query() {
			all = append(all, values...)
		}
		if u.User != nil {
			basic := http.Request{Header: http.Header{}}
			basic.SetBasicAuth(u.User.Username(), password)
			all = append(all, strings.TrimPrefix(basic.Header.Get("Authorization"), "Basic "))
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return len(s) < 4 })
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}
