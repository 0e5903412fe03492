//go:build linux

package jobs

import (
	"strconv"
	"strings"
	"time"
)

// DefaultPath is the PATH of a job that is given no other: the directories of the system, local
// ones first, whatever the daemon's own PATH is.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// runVariable carries the run's id. Processes that left the process group are found by it.
const runVariable = "ROTA_RUN"

// reserved begins the names that only Rota sets.
const reserved = "ROTA_"

// Environ is what a program is told about its run, as "NAME=VALUE":
//
//	ROTA_JOB            the job's name
//	ROTA_TICK           the tick, RFC 3339 in UTC, with a fraction only if it has one
//	ROTA_RUN            the run's id
//	ROTA_ATTEMPT        from 1
//	ROTA_FENCING_TOKEN  decimal
//	ROTA_LOCK           the lock's name
//	ROTA_HOST           the host that runs it
//	ROTA_NAMESPACE      the fleet
//	ROTA_CONFIG         path of the config file, empty if there is none
//	ROTA_SOCKET         the daemon's socket, by which `rota fence` works in a run; empty if there is none
//
// A run without an ID is no job's, and what is under a lease all the same: it is told what is true of that,
// from ROTA_FENCING_TOKEN on.
func Environ(run Run) []string {
	var of []string
	if run.ID != "" {
		of = []string{
			"ROTA_JOB=" + run.Job,
			"ROTA_TICK=" + run.Tick.UTC().Format(time.RFC3339Nano),
			runVariable + "=" + run.ID,
			"ROTA_ATTEMPT=" + strconv.Itoa(run.Attempt),
		}
	}
	return append(of,
		"ROTA_FENCING_TOKEN="+strconv.FormatInt(run.Token, 10),
		"ROTA_LOCK="+run.Lock,
		"ROTA_HOST="+run.Host,
		"ROTA_NAMESPACE="+run.Namespace,
		"ROTA_CONFIG="+run.Config,
		"ROTA_SOCKET="+run.Socket,
	)
}

// BaseEnv is what the environment of a job's programs begins with, for Command.Base: PATH
// ([DefaultPath]), HOME, USER, LOGNAME, SHELL, LANG (C.UTF-8) and TZ, then pass. A later value replaces
// an earlier one of the same name. Nothing else of the daemon's environment gets through, so that a job
// runs the same on every host and sees no secret that it was not given.
//
// HOME, USER, LOGNAME and SHELL are a's, the account that the daemon runs as; with a nil one HOME is "/",
// SHELL is /bin/sh, and the other two are left out. zone is the job's zone, "" means UTC. pass holds the
// daemon's own variables that the job may see, as "NAME=VALUE"; names that begin with ROTA_ are dropped
// from it: they are Rota's to set.
func BaseEnv(a *Account, zone string, pass []string) []string {
	if a == nil {
		a = &Account{Home: "/", Shell: defaultShell}
	}
	if zone == "" {
		zone = "UTC"
	}
	base := append([]string{"PATH=" + DefaultPath}, a.env()...)
	base = append(base, "LANG=C.UTF-8", "TZ="+zone)
	for _, entry := range pass {
		if !strings.HasPrefix(entry, reserved) {
			base = append(base, entry)
		}
	}
	return merge(base, nil)
}

// env is what programs are told of the account that they run as.
func (a *Account) env() []string {
	env := []string{"HOME=" + a.Home}
	if a.Name != "" {
		env = append(env, "USER="+a.Name, "LOGNAME="+a.Name)
	}
	return append(env, "SHELL="+a.Shell)
}

// merge returns base with the entries of over, each name once. POSIX leaves open which of two
// equal names a program sees, so there never are two.
func merge(base, over []string) []string {
	merged := make([]string, 0, len(base)+len(over))
	at := make(map[string]int, len(base)+len(over))
	for _, entries := range [][]string{base, over} {
		for _, entry := range entries {
			name, _, _ := strings.Cut(entry, "=")
			if i, ok := at[name]; ok {
				merged[i] = entry
				continue
			}
			at[name] = len(merged)
			merged = append(merged, entry)
		}
	}
	return merged
}

// lookup returns the value of name in env, "" if there is none.
func lookup(env []string, name string) string {
	for _, entry := range env {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value
		}
	}
	return ""
}
