package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"rota/jobs"
	"rota/scheduler"
)

// accountPatience is how long a load waits for an account, where a directory service has to be asked. Each
// is asked for once, and after the first that took as long as this no other is.
const accountPatience = 2 * time.Second

// lookUp is [jobs.LookupAccount], for as long as a load may wait for one account.
func lookUp(user, group string) (*jobs.Account, error) {
	ctx, cancel := context.WithTimeout(context.Background(), accountPatience)
	defer cancel()
	return jobs.LookupAccount(ctx, user, group)
}

// runsWouldFail begins the warnings of what another user may be able to. The one who runs a check is
// not always the daemon's.
const runsWouldFail = "runs would fail if the daemon were this user: "

// umask takes digits as umask(1) does, in a string: TOML has no octal number that begins with a 0.
func umask(name string, dst **int) key {
	return optional(dst, func(mask *int) key {
		var s string
		k := none(text(name, "", &s))
		plain := k.set
		k.set = func(at place, v any) bool {
			if !plain(at, v) {
				return false
			}
			n, err := strconv.ParseUint(s, 8, 16)
			if err != nil || n > 0o777 {
				at.fault(problem{show(s) + " is not a mask in octal, 0 to 0777", `write it like "0027"`})
				return false
			}
			*mask = int(n)
			return true
		}
		return k
	})
}

// here tells whether this host is to run the job. What another host has is not looked for here.
func (l *loader) here(j *Job) bool {
	return !l.env.looking && j.Enabled && j.Request == nil && scheduler.MayRun(j.Hosts, l.cfg.Host.Name, l.cfg.Host.Labels)
}

// finishAccount asks this host for the account that the job runs as. One that there is not is a fault.
// One that may be there in a moment, since a directory service has to be asked, is not: a daemon that
// starts while that is away must not stay away for it. Nor is one that this process may not become,
// because the daemon may be another user than the one who checks.
func (l *loader) finishAccount(f found, j *Job) {
	if !l.here(j) {
		return
	}
	if j.Nice != nil {
		if err := l.env.nice(*j.Nice); err != nil {
			l.placeOf(f, "nice").warn(problem{text: runsWouldFail + err.Error()})
		}
	}
	if l.blames(f, "user") || l.blames(f, "group") {
		return
	}
	err := l.account(j.User, j.Group)
	l.sayOfAccount(f, j, err)
	if unknown, ok := errors.AsType[*jobs.UnknownError](err); ok && unknown.Kind == "user" {
		l.sayOfAccount(f, j, l.account("", j.Group)) // both in one pass
	}
}

// sayOfAccount reports what is wrong with an account at the key that it is the fault of.
func (l *loader) sayOfAccount(f found, j *Job, err error) {
	unknown, ok := errors.AsType[*jobs.UnknownError](err)
	switch {
	case err == nil:
	case ok && unknown.Elsewhere:
		l.placeOf(f, unknown.Kind).warn(problem{text: err.Error()})
	case ok:
		l.placeOf(f, unknown.Kind).fault(problem{text: err.Error()})
	case j.User == "":
		l.placeOf(f, "group").warn(problem{text: runsWouldFail + err.Error()})
	default:
		l.placeOf(f, "user").warn(problem{text: runsWouldFail + err.Error()})
	}
}

// account is what keeps this process from running anything as a user and a group, nil for neither. It
// asks once for each.
func (l *loader) account(user, group string) error {
	if user == "" && group == "" {
		return nil
	}
	err, asked := l.accounts[[2]string{user, group}]
	if asked {
		return err
	}
	if l.unanswered != nil {
		return l.unanswered
	}
	account, err := l.env.account(user, group)
	if err == nil {
		err = l.env.become(account)
	}
	l.accounts[[2]string{user, group}] = err
	if errors.Is(err, context.DeadlineExceeded) {
		l.unanswered = err
	}
	return err
}

// finishEnvFile looks whether env_file can be read, and what it holds. Nothing of that is kept: each
// run reads it anew. Where this user may not read it nothing can be told: the daemon may.
func (l *loader) finishEnvFile(f found, j *Job) {
	if j.EnvFile == "" || !l.here(j) || l.blames(f, "env_file") {
		return
	}
	at := l.placeOf(f, "env_file")
	info, err := l.files.stat(j.EnvFile)
	if err == nil && !info.Mode().IsRegular() {
		at.fault(problem{text: strconv.Quote(j.EnvFile) + " is not a regular file"})
		return
	}
	var text []byte
	if err == nil {
		text, _, err = l.files.read(j.EnvFile)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		at.warn(problem{text: runsWouldFail + unreadable(j.EnvFile, err).text})
	case err != nil:
		at.fault(unreadable(j.EnvFile, err))
	default:
		if _, err := jobs.ParseEnv(string(text)); err != nil {
			at.fault(problem{text: fmt.Sprintf("%q, %v", j.EnvFile, err)})
		}
	}
}
