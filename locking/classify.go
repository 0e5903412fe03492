package locking

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// transientCodes are the first words of the answers with which a server refuses a command
// for now and that change without anybody's doing. Redis names them in its errorstats and
// in the pages on replication, cluster, persistence and scripting.
const transientCodes = " LOADING READONLY MASTERDOWN CLUSTERDOWN TRYAGAIN NOREPLICAS MISCONF BUSY OOM MOVED ASK UNBLOCKED "

// classify marks what a failed call means to its caller: [ErrConflict], [ErrUnavailable], or
// neither. The error itself stays in the chain.
func classify(err error) error {
	answer, refused := errors.AsType[redis.Error](err)
	switch {
	case err == nil, errors.Is(err, ErrConflict), errors.Is(err, ErrUnavailable):
		return err
	case refused:
		code, text, _ := strings.Cut(answer.Error(), " ")
		switch {
		case code == "CONFLICT":
			return fmt.Errorf("%w: %s", ErrConflict, text)
		case strings.Contains(transientCodes, " "+code+" "), strings.Contains(text, "max number of clients"):
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	case errors.Is(err, context.Canceled):
		return err // the caller's own doing
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

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
	return errors.Is(err, ErrConflict) || errors.Is(err, redis.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}
