package locking

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// transientCodes are the first words of the answers with which a server refuses a command
// for now and that change without anybody's doing. Redis names them in its errorstats and
// in the pages on replication, cluster, persistence and scripting.
const transientCodes = " LOADING READONLY MASTERDOWN CLUSTERDOWN TRYAGAIN NOREPLICAS MISCONF BUSY OOM MOVED ASK UNBLOCKED "

// outdated are parts of the answers of a server that does not know what it was asked: a command,
// an exclusive range of a stream (new in 6.2), or TIME before a write in a script (5.0).
var outdated = []string{
	"unknown command", "Unknown Redis command",
	"Invalid stream ID specified",
	"Write commands not allowed after non deterministic commands",
}

// inScript finds what a command in a script was refused with. Redis before 7.0 puts the place in
// front of it, and of the error that the script then raises a sentence of its own.
var inScript = regexp.MustCompile(`@user_script: \d+: -?(.*)`)

// Classify marks what the failure of a call to Redis means to its caller: [ErrConflict],
// [ErrUnavailable], [ErrTooOld], or none of them: an answer that asking again will not change, or
// the caller's own [context.Canceled]. The error itself stays in the chain. Errors of this package
// are classified already; what go-redis returns of other commands is for those who send them to
// classify, so that both sides say the same of a Redis that is not ready. Nil stays nil, and
// classifying twice changes nothing.
func Classify(err error) error {
	answer, refused := errors.AsType[redis.Error](err)
	switch {
	case err == nil, errors.Is(err, ErrConflict), errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooOld):
		return err
	case refused:
		return classifyAnswer(err, answer.Error())
	case errors.Is(err, context.Canceled):
		return err // the caller's own doing
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func classifyAnswer(err error, text string) error {
	if found := inScript.FindStringSubmatch(text); found != nil {
		text = found[1]
	}
	code, rest, _ := strings.Cut(text, " ")
	switch {
	case code == "CONFLICT":
		return fmt.Errorf("%w: %s", ErrConflict, rest)
	case strings.Contains(transientCodes, " "+code+" "), strings.Contains(rest, "max number of clients"):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for _, part := range outdated {
		if strings.Contains(text, part) {
			return fmt.Errorf("%w: %w", ErrTooOld, err)
		}
	}
	return err
}

// MayHaveRun tells of the error of a call whether Redis may have done what it was asked: the
// request may have arrived, and no answer came. False: it was never written, or the server
// answered that it refuses it. Of nil it is false too.
func MayHaveRun(err error) bool { return err != nil && !isCertain(err) }

// isNoScript tells that a server does not know a script.
func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// isCertain tells that a failed call has changed nothing: it was never written, or the
// server answered that it refuses it. After any other error the script may have run.
func isCertain(err error) bool {
	if _, refused := errors.AsType[redis.Error](err); refused {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok { // before the first command
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	return errors.Is(err, ErrConflict) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}
