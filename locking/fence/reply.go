package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/locking"
)

// readReply reads what the scripts answer. Done is false if the token was refused. An answer of another
// shape is never acted on: what the script did is then unknown.
func readReply(reply any, err error) (v Value, done bool, _ error) {
	if err != nil {
		return Value{}, false, conflict(err)
	}
	unexpected := fmt.Errorf("%w: unexpected answer %.100q", locking.ErrUnavailable, fmt.Sprint(reply))
	fields, ok := reply.([]any)
	if !ok || len(fields) < 2 || len(fields) > 3 {
		return Value{}, false, unexpected
	}
	verdict, _ := fields[0].(string)
	digits, _ := fields[1].(string)
	v.Token, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || v.Token < 0 || v.Token > MaxToken || verdict != "0" && verdict != "1" {
		return Value{}, false, unexpected
	}
	if verdict == "0" {
		if v.Token == 0 || len(fields) == 3 {
			return Value{}, false, unexpected
		}
		return v, false, nil
	}
	if len(fields) == 3 && fields[2] != nil {
		data, ok := fields[2].(string)
		if !ok {
			return Value{}, false, unexpected
		}
		v.Data = []byte(data)
	}
	return v, true, nil
}

// conflict turns the scripts' own error into [ErrConflict].
func conflict(err error) error {
	answer, refused := errors.AsType[redis.Error](err)
	if !refused {
		return err
	}
	if what, own := strings.CutPrefix(answer.Error(), "NOVALUE "); own {
		return fmt.Errorf("%w: %s", ErrConflict, what)
	}
	return err
}
