package fence_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"rota/locking/fence"
)

// A pointer is a small object that says which other object counts.
type pointer struct {
	Token  int64  `json:"token"`
	Object string `json:"object"`
}

// conditions are the headers by which a store compares and writes in one step.
type conditions struct {
	version        string // of an answer: which version of the object it is
	ifVersion      string // of a PUT: only if it still is that version
	absent, nobody string // of a PUT: only if there is no object yet
}

var (
	s3  = conditions{"ETag", "If-Match", "If-None-Match", "*"}
	gcs = conditions{"X-Goog-Generation", "X-Goog-If-Generation-Match", "X-Goog-If-Generation-Match", "0"}
)

// putFenced has the pointer at url say object, unless it has been set under a higher token.
func putFenced(ctx context.Context, client *http.Client, c conditions, url string, token int64, object string) error {
	body, err := json.Marshal(pointer{token, object})
	if err != nil {
		return err
	}
	for {
		seen, version, err := readPointer(ctx, client, c, url)
		if err != nil {
			return err
		}
		if seen.Token > token {
			return &fence.StaleError{Key: url, Token: token, Stored: seen.Token}
		}
		put, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		if version == "" {
			put.Header.Set(c.absent, c.nobody)
		} else {
			put.Header.Set(c.ifVersion, version)
		}
		answer, err := client.Do(put)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusOK, http.StatusCreated, http.StatusNoContent:
			return nil
		case http.StatusPreconditionFailed, http.StatusConflict: // somebody has written since: look again
		default:
			return fmt.Errorf("put %s: %s", url, answer.Status)
		}
	}
}

// readPointer returns the pointer and its version, "" if there is none.
func readPointer(ctx context.Context, client *http.Client, c conditions, url string) (p pointer, version string, err error) {
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return p, "", err
	}
	answer, err := client.Do(get)
	if err != nil {
		return p, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	switch version = answer.Header.Get(c.version); {
	case answer.StatusCode == http.StatusNotFound:
		return p, "", nil
	case answer.StatusCode != http.StatusOK:
		return p, "", fmt.Errorf("get %s: %s", url, answer.Status)
	case version == "":
		return p, "", fmt.Errorf("get %s: no %s", url, c.version)
	}
	if err := json.NewDecoder(answer.Body).Decode(&p); err != nil || p.Token < 1 {
		return p, "", fmt.Errorf("get %s: not a pointer with a token: %w", url, errors.Join(err, fence.ErrConflict))
	}
	return p, version, nil
}

// bucket is an object store as far as one object and its preconditions go (RFC 9110, §13.1.1 and §13.1.2;
// the XML API of Cloud Storage, "Request preconditions"). Its ETag is of the content alone, which is S3's for
// objects of a single put; its generation is another one with each put.
type bucket struct {
	mu         sync.Mutex
	content    []byte // nil: there is no object
	generation int
	before     func() // called before the next put, once
	puts       atomic.Int64
}

func (b *bucket) etag() string { return fmt.Sprintf(`"%x"`, b.content) }

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		b.puts.Add(1)
		b.mu.Lock()
		before := b.before
		b.before = nil
		b.mu.Unlock()
		if before != nil {
			before()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.content == nil && r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Method == http.MethodPut {
		match, none, generation := r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get("X-Goog-If-Generation-Match")
		if match != "" && (b.content == nil || match != b.etag()) || none == "*" && b.content != nil ||
			generation != "" && generation != fmt.Sprint(b.generation) {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		b.content, _ = io.ReadAll(r.Body)
		b.generation++
	}
	w.Header().Set("ETag", b.etag())
	w.Header().Set("X-Goog-Generation", fmt.Sprint(b.generation))
	if r.Method == http.MethodGet {
		_, _ = w.Write(b.content)
	}
}

func (b *bucket) pointer(t *testing.T) (p pointer) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := json.Unmarshal(b.content, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestObjects_StaleWritesAreRefused(t *testing.T) {
	for name, c := range map[string]conditions{"If-Match": s3, "generation": gcs} {
		t.Run(name, func(t *testing.T) {
			b := &bucket{}
			server := httptest.NewServer(b)
			defer server.Close()
			put := func(token int64, object string) error {
				return putFenced(t.Context(), server.Client(), c, server.URL+"/report", token, object)
			}
			want := func(token int64, object string) {
				t.Helper()
				if got := b.pointer(t); got != (pointer{token, object}) {
					t.Errorf("the pointer is %+v, want %d and %q", got, token, object)
				}
			}
			stale := func(err error, token, stored int64) {
				t.Helper()
				if e, ok := errors.AsType[*fence.StaleError](err); !ok || e.Token != token || e.Stored != stored {
					t.Errorf("a put with token %d: got %v, want a StaleError that names %d", token, err, stored)
				}
			}
			let := func(err error) {
				t.Helper()
				if err != nil {
					t.Errorf("got %v, want it let through", err)
				}
			}
			let(put(3, "a"))
			let(put(3, "a")) // its answer was lost
			let(put(5, "b"))
			stale(put(4, "late"), 4, 5)
			want(5, "b")

			// The newer holder is faster, between the stale one's look and its put.
			b.before = func() { let(put(7, "c")) }
			stale(put(6, "late"), 6, 7)
			want(7, "c")
			// And with what is there already: content without the token would have the same ETag.
			b.before = func() { let(put(9, "c")) }
			stale(put(8, "late"), 8, 9)
			want(9, "c")
			// The older holder is faster; the newer one looks again.
			b.before = func() { let(put(9, "d")) }
			let(put(10, "e"))
			want(10, "e")

			// Both find no object.
			b.content, b.generation = nil, 0
			b.before = func() { let(put(5, "b")) }
			stale(put(4, "late"), 4, 5)
			want(5, "b")

			for _, foreign := range []string{"", "not JSON", `{"object":"x"}`, `{"token":-1}`} {
				b.content = []byte(cmp.Or(foreign, " "))
				if err := put(99, "x"); !errors.Is(err, fence.ErrConflict) || string(b.content) != cmp.Or(foreign, " ") {
					t.Errorf("a put where %q is: got %v and %q, want a conflict and no change", foreign, err, b.content)
				}
			}
		})
	}
}
