package locking

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
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

// midMove are parts of what a node of a Cluster says to a script that comes to a key which is on its
// way to another node, or when the Cluster is down. All keys of a script have one slot here, so it is
// over when the slot has moved. Redis says it at the key: what the script has written before, it has.
var midMove = []string{
	"Script attempted to access a non local key",
	"while the cluster is down",
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
	case unknownMaster(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, &noMasterError{err})
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
	for _, part := range midMove {
		if strings.Contains(text, part) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
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

// noMaster is what go-redis says when no Sentinel tells where the master is, before what each of them
// said. Nothing was sent to any server.
const noMaster = "all sentinels specified in configuration are unreachable: "

func unknownMaster(err error) bool { return err != nil && strings.Contains(err.Error(), noMaster) }

// noMasterError is such an error without what is in its chain: that one Sentinel knows no master by the
// name is, to go-redis, the same error as that a key is missing, and its refusal of a password is none
// of the server's.
type noMasterError struct{ err error }

func (e *noMasterError) Error() string {
	_, said, _ := strings.Cut(e.err.Error(), noMaster)
	said = strings.ReplaceAll(said, redis.Nil.Error(), "no master by that name")
	return "the sentinels name no master: " + strings.ReplaceAll(said, "\n", "; ")
}

// isNoScript tells that a server does not know a script.
func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// isMoving tells that a server of a Cluster refused because the slot is on its way to another: some
// keys are here and some are there, or the way to it was not found yet.
func isMoving(err error) bool {
	return redis.IsTryAgainError(err) || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "MOVED")
}

// isCertain tells that a failed call has changed nothing: it was never written, or the
// server answered that it refuses it. After any other error the script may have run.
func isCertain(err error) bool {
	if answer, refused := errors.AsType[redis.Error](err); refused {
		return !slices.ContainsFunc(midMove, func(part string) bool { return strings.Contains(answer.Error(), part) })
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
	if _, ok := errors.AsType[*noMasterError](err); ok || unknownMaster(err) {
		return true
	}
	return errors.Is(err, ErrConflict) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}
