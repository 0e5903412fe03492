package socket

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"rota/locking"
	"rota/locking/fence"
)

const (
	version = 1
	opFence = "fence"
)

// maxLine bounds a request and a reply: a value in base64, a key in which each byte is an escape of six,
// and what is around them.
var maxLine = base64.StdEncoding.EncodedLen(fence.MaxValueBytes) + 6*fence.MaxKeyBytes + 1<<10

// The codes of replies.
const (
	codeStale       = "stale"       // the key has seen a higher token
	codeConflict    = "conflict"    // the key holds something else
	codeUnavailable = "unavailable" // Redis did not answer; the value may have been written
	codeInvalid     = "invalid"     // key, token or value cannot be used
	codeRefused     = "refused"     // not for this peer, or not with this token
	codeLost        = "lost"        // the lease of the peer's run is not to be trusted any more
	codeBusy        = "busy"        // too much at a time; ask again
	codeFailed      = "failed"      // anything else
)

var (
	// ErrRefused says that the daemon does not do that for this process.
	ErrRefused = errors.New("the daemon refused")
	// ErrLost says that the lease of the run cannot be trusted any more: the run is being ended.
	ErrLost = errors.New("the run's lease is lost")
	// ErrAway says that there is no daemon at the socket, or none that answers. After a request was sent
	// it may have been carried out.
	ErrAway = errors.New("the daemon does not answer")

	errBusy = errors.New("the daemon is busy")
)

type request struct {
	V     int    `json:"v"`
	Op    string `json:"op"`
	Key   string `json:"key"`
	Token int64  `json:"token"`
	Value []byte `json:"value"` // null: it stays
}

type reply struct {
	V      int    `json:"v"`
	Token  int64  `json:"token,omitempty"`
	Value  []byte `json:"value"` // null: there is none
	Error  string `json:"error,omitempty"`
	Text   string `json:"text,omitempty"`
	Stored int64  `json:"stored,omitempty"`
}

// refuse makes the reply of an error.
func refuse(err error) reply {
	r := reply{V: version, Error: codeFailed, Text: err.Error()}
	for _, known := range []struct {
		err  error
		code string
	}{
		{fence.ErrStale, codeStale},
		{fence.ErrConflict, codeConflict},
		{fence.ErrInvalid, codeInvalid},
		{locking.ErrUnavailable, codeUnavailable},
		{ErrRefused, codeRefused},
		{ErrLost, codeLost},
		{errBusy, codeBusy},
	} {
		if errors.Is(err, known.err) {
			r.Error = known.code
			break
		}
	}
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		r.Token, r.Stored = stale.Token, stale.Stored
	}
	return r
}

// remoteError is an error that the daemon has put into words.
type remoteError struct {
	text string
	kind error // nil: none of those that are told apart
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// err makes the error of a reply, nil if it is none.
func (r *reply) err(key string) error {
	kinds := map[string]error{
		codeConflict: fence.ErrConflict, codeInvalid: fence.ErrInvalid, codeUnavailable: locking.ErrUnavailable,
		codeRefused: ErrRefused, codeLost: ErrLost, codeBusy: errBusy,
	}
	switch {
	case r.V != version:
		return fmt.Errorf("%w as version %d does, but with %d", ErrAway, version, r.V)
	case r.Error == "":
		return nil
	case r.Error == codeStale:
		return &fence.StaleError{Key: key, Token: r.Token, Stored: r.Stored}
	}
	return &remoteError{text: r.Text, kind: kinds[r.Error]}
}

// readLine reads one object. It is not more than a line, and a line not more than maxLine.
func readLine(from io.Reader, to any) error {
	line, err := bufio.NewReader(io.LimitReader(from, int64(maxLine))).ReadBytes('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == maxLine:
		return fmt.Errorf("longer than %d bytes", maxLine)
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	return unmarshal(line, to)
}

func unmarshal(line []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one object")
	}
	return nil
}

func writeLine(to io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = to.Write(append(line, '\n'))
	return err
}
