package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rota/internal/socket"
	"rota/locking"
	"rota/locking/fence"
)

// socketPatience is how long the daemon of a run is waited for, which itself waits for Redis as long as
// redis.op_timeout says.
const socketPatience = 10 * time.Second

const unsureHint = "it may have been written; repeat it, which is safe"

func (a *app) fenceCmd() *cobra.Command {
	var f fencing
	c := &cobra.Command{
		Use:   "fence KEY",
		Short: "Write a value that late writers cannot overwrite",
		Long: `Write a value in the fleet's Redis, unless it has been written under a higher fencing token: then
another run has gone on meanwhile, nothing is changed, and the exit code is 3. An equal token is
let through, so a run writes as often as it likes, and may repeat a write.

Without a value the token alone is raised, and what is there is printed: nothing older can be
written from then on. A run that reads a value to change it begins with this. Without a token, too,
the value is only looked at, and nobody is kept out. So a script names its token: an empty one, of
--token or in the environment, is refused.

Inside a run, where ROTA_SOCKET is set, the daemon writes, with the token of that run and none
other; no config and no password are needed. With -c FILE, and elsewhere, Redis is asked itself.

A KEY is written under the tokens of one lock: those of two do not compare. It never expires. A
value has up to 1 MiB; what is longer than an argument may be, 128 KiB on Linux, is for --value-file.`,
		Example: `  rota fence import-cursor --value 1700       # in a run
  cursor=$(rota fence import-cursor --token "$ROTA_FENCING_TOKEN") || exit  # raise it, then read
  rota fence import-cursor --json             # at a terminal: look`,
		Args: takes("KEY"),
	}
	c.Flags().StringVar(&f.token, "token", "", "the fencing token `N` (default $ROTA_FENCING_TOKEN)")
	c.Flags().StringVar(&f.value, "value", "", "write the value `V`; \"\" is one, too")
	c.Flags().StringVar(&f.valueFile, "value-file", "", "write what `FILE` holds, to the byte; \"-\": standard input")
	c.Flags().BoolVar(&f.json, "json", false, "print one object: key, token, value, written")
	c.RunE = func(c *cobra.Command, args []string) error {
		value, file := c.Flags().Changed("value"), c.Flags().Changed("value-file")
		if value && file {
			return usage("--value or --value-file, not both")
		}
		f.key, f.write, f.hasToken = args[0], value || file, c.Flags().Changed("token")
		return a.fence(c.Context(), f)
	}
	return c
}

// fencing is what one command is to do.
type fencing struct {
	key, token, value string
	valueFile         string // "": it is value
	hasToken          bool   // token was given, which may be empty
	write             bool
	json              bool
}

func (a *app) fence(ctx context.Context, f fencing) error {
	token, err := a.fencingToken(f)
	if err != nil {
		return err
	}
	data, err := f.data()
	if err != nil {
		return err
	}
	v, err := a.fenced(ctx, f.key, token, data)
	if err != nil {
		return err
	}
	switch {
	case f.json:
		return a.answer(true, fencedAnswer(f, v), "")
	case f.write:
		return a.answer(false, nil, "%s is written under token %d", plain(f.key), v.Token)
	case v.Data == nil:
		return nil
	}
	text := append(v.Data, '\n')
	if out, ok := a.stdout.(*os.File); ok && term.IsTerminal(int(out.Fd())) {
		text = forTerminal(text)
	}
	_, err = a.stdout.Write(text)
	return err
}

// data is what is to be written, nil if nothing is.
func (f fencing) data() ([]byte, error) {
	switch {
	case !f.write:
		return nil, nil
	case f.valueFile == "":
		return []byte(f.value), nil
	}
	in := os.Stdin
	if f.valueFile != "-" {
		file, err := os.Open(f.valueFile)
		if err != nil {
			return nil, fmt.Errorf("--value-file: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, fence.MaxValueBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--value-file: %w", err)
	case len(data) > fence.MaxValueBytes:
		return nil, usage("--value-file: more than %d bytes, which is the most of a value", fence.MaxValueBytes)
	}
	return data, nil
}

// fencingToken is the token of the flag or of the environment, 0 for none. One that is there and empty was
// meant to be one: to go on without it would be to look where a write was to be guarded.
func (a *app) fencingToken(f fencing) (int64, error) {
	from, digits, given := "--token", f.token, f.hasToken
	if !given {
		from = "$ROTA_FENCING_TOKEN"
		digits, given = os.LookupEnv("ROTA_FENCING_TOKEN")
	}
	inRun := a.runSocket() != ""
	switch {
	case given && digits == "":
		return 0, &exitError{
			code: exitUsage, text: from + " is empty",
			hint: "a run and a command under 'rota lock' have theirs in ROTA_FENCING_TOKEN; to look without one, leave it out and unset that",
		}
	case !given && f.write && !inRun:
		return 0, usage("a value needs a token: give --token N, or set ROTA_FENCING_TOKEN")
	case !given:
		return 0, nil
	}
	token, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || fence.CheckToken(token) != nil {
		return 0, usage("%s: %.40q is no fencing token, which is a number between 1 and 2^53 - 1", from, digits)
	}
	return token, nil
}

// runSocket is the socket of the daemon whose run this is, "" outside of one, and for who names a config.
func (a *app) runSocket() string {
	if a.configFlag != "" {
		return ""
	}
	return a.env("ROTA_SOCKET")
}

// fenced does it: through the daemon or by Redis itself.
func (a *app) fenced(ctx context.Context, key string, token int64, data []byte) (v fence.Value, err error) {
	if err := fence.CheckKey(key); err != nil {
		return v, usage("%v", err)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return v, usage("key: %.32q has characters that do not print", key)
	}
	if path := a.runSocket(); path != "" {
		ctx, cancel := context.WithTimeout(ctx, socketPatience)
		defer cancel()
		v, err = socket.Write(ctx, path, key, token, data)
		return v, a.explainFence(err, path)
	}
	s, err := a.open()
	if err != nil {
		return v, err
	}
	defer s.close()
	values, err := fence.NewRedis(s.client, fence.RedisOptions{
		Prefix: fence.NamespacePrefix(s.cfg.Namespace), CallTimeout: s.cfg.Redis.OpTimeout,
	})
	if err != nil {
		return v, err
	}
	switch {
	case token == 0:
		v, err = values.Read(ctx, key)
	case data == nil:
		v, err = values.Raise(ctx, key, token)
	default:
		v, err = fence.Value{Token: token, Data: data}, values.Write(ctx, key, token, data)
	}
	if errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrConflict) || errors.Is(err, fence.ErrInvalid) {
		return v, a.explainFence(err, "")
	}
	unsure := token != 0 && locking.MayHaveRun(err)
	err = s.explain(err)
	if e, ok := errors.AsType[*exitError](err); ok && e.code == exitUnreachable && unsure && e.hint == "" {
		e.hint = unsureHint
	}
	return v, err
}

// explainFence says what a refusal means, and gives it its exit code.
func (a *app) explainFence(err error, path string) error {
	if err == nil {
		return nil
	}
	stale, isStale := errors.AsType[*fence.StaleError](err)
	text := plain(inScript.ReplaceAllString(err.Error(), ""))
	switch {
	case isStale:
		return &exitError{
			code: exitStale, text: fmt.Sprintf("token %d is stale: %.32q has seen %d", stale.Token, stale.Key, stale.Stored),
			hint: "another run has gone on; this one should stop",
		}
	case errors.Is(err, fence.ErrConflict):
		hint := "somebody has to look at that key; it is never overwritten"
		if _, about, ok := strings.Cut(text, fence.ErrConflict.Error()+": "); ok {
			key, _, _ := strings.Cut(about, " ")
			hint = conflictHint(key, about)
		}
		return &exitError{code: exitFailed, text: text, hint: hint}
	case errors.Is(err, fence.ErrInvalid):
		return &exitError{code: exitUsage, text: text}
	case errors.Is(err, socket.ErrLost):
		return &exitError{code: exitLost, text: text, hint: "it is being ended; nothing was written"}
	case errors.Is(err, socket.ErrRefused):
		return &exitError{code: exitFailed, text: text, hint: "it writes with the token of its own runs alone; 'rota fence -c FILE' asks Redis itself"}
	case errors.Is(err, socket.ErrAway) && errors.Is(err, syscall.EACCES):
		return &exitError{
			code: exitUnreachable, text: fmt.Sprintf("%s may not be used by this user", path),
			hint: "give the daemon a RUNTIME_DIRECTORY that every user can pass through, as its systemd unit does",
		}
	case errors.Is(err, socket.ErrAway):
		return &exitError{code: exitUnreachable, text: fmt.Sprintf("%s: %s", path, text), hint: "'rota fence -c FILE' asks Redis itself"}
	}
	// Of Redis, in the daemon's words.
	e := &exitError{code: exitFailed, text: text}
	if errors.Is(err, locking.ErrUnavailable) {
		e.code = exitUnreachable
		if !refusedForNow.MatchString(text) {
			e.hint = unsureHint
		}
	}
	return e
}

// refusedForNow finds in a daemon's words the answers of a Redis that is not ready, which has then written
// nothing.
var refusedForNow = regexp.MustCompile(`\b(OOM|READONLY|LOADING|MISCONF|NOREPLICAS|MASTERDOWN|CLUSTERDOWN) `)

// fencedAnswer is what scripts are told.
func fencedAnswer(f fencing, v fence.Value) any {
	object := struct {
		Key     string  `json:"key"`
		Token   int64   `json:"token"`            // the highest seen; 0: none
		Value   *string `json:"value"`            // null: there is none, or it is no text
		Base64  []byte  `json:"base64,omitempty"` // the value, where it is no text
		Written bool    `json:"written"`
	}{Key: f.key, Token: v.Token, Written: f.write}
	switch {
	case v.Data == nil:
	case utf8.Valid(v.Data):
		object.Value = new(string(v.Data))
	default:
		object.Base64 = v.Data
	}
	return object
}
