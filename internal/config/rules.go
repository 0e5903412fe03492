package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"rota/jobs"
	"rota/scheduler/schedule"
)

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// checkName is the rule of job names, and of what is compared with them or becomes part of a
// key in Redis beside them: hosts, labels, locks.
func checkName(s string) problem {
	switch {
	case s == "":
		return problem{text: "a name may not be empty"}
	case len(s) > 64:
		return problem{text: fmt.Sprintf("%s has %d characters, a name at most 64", show(s), len(s))}
	case strings.Trim(s[:1], alphanumeric) != "":
		return problem{text: show(s) + " does not begin with a letter or a digit"}
	case strings.Trim(s, alphanumeric+"._-") != "":
		return problem{text: show(s) + " holds other characters than A-Z a-z 0-9 . _ -"}
	}
	return problem{}
}

// checkNamespace is stricter than Redis: the namespace is the hash tag of every key, and a brace
// in it would move keys to other slots (redis.io, "Redis cluster specification", hash tags).
func checkNamespace(s string) problem {
	if s == "" || len(s) > 32 || strings.Trim(s, alphanumeric+"._-") != "" {
		return problem{text: show(s) + " is not 1 to 32 characters of A-Z a-z 0-9 . _ -"}
	}
	return problem{}
}

// checkVariable is the rule of the names of environment variables: POSIX.1-2024, XBD 8.1, with
// lower case, which it leaves to applications.
func checkVariable(s string) problem {
	switch {
	case s == "" || strings.Trim(s, alphanumeric+"_") != "" || s[0] >= '0' && s[0] <= '9':
		return problem{text: show(s) + " is not the name of an environment variable"}
	case strings.HasPrefix(s, "ROTA_"):
		return problem{text: "variables that begin with ROTA_ are set by Rota alone"}
	}
	return problem{}
}

// checkNoNUL is for what is handed to the system, where strings end at a NUL: execve(2), open(2).
func checkNoNUL(s string) problem {
	if strings.ContainsRune(s, 0) {
		return problem{text: "holds a NUL character"}
	}
	return problem{}
}

// checkNotEmpty takes blanks for nothing: a shell would succeed with them, and do nothing.
func checkNotEmpty(s string) problem {
	if strings.TrimSpace(s) == "" {
		return problem{text: "is empty"}
	}
	return problem{}
}

// checkAbsolute: a daemon has no directory that a relative path could mean.
func checkAbsolute(s string) problem {
	if !filepath.IsAbs(s) {
		return problem{text: show(s) + " is not an absolute path"}
	}
	return checkNoNUL(s)
}

// unlessEmpty is for texts that may be left empty, and are nothing then.
func unlessEmpty(c check) check {
	return func(s string) problem {
		if s == "" {
			return problem{}
		}
		return c(s)
	}
}

// checkMaster is the rule of Sentinel for the names of masters (sentinel.c, sentinelQueueConfig: letters,
// digits and ".-_").
func checkMaster(s string) problem {
	if strings.Trim(s, alphanumeric+"._-") != "" {
		return problem{text: show(s) + " is not the name of a master"}
	}
	return problem{}
}

// checkServerName: a name or an address as it stands in a certificate, without a port.
func checkServerName(s string) problem {
	if _, err := netip.ParseAddr(s); err != nil && strings.Trim(s, alphanumeric+"._-") != "" {
		return problem{text: show(s) + " is not a name as it stands in a certificate"}
	}
	return problem{}
}

// checkListen is the rule of an address that a server can be given. Whether it is one of this
// machine's is seen when it listens.
func checkListen(s string) problem {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		return checkAbsolute(path)
	}
	wrong := problem{show(s) + " is not an address to listen on", `write it like "127.0.0.1:8440" or "unix:/run/rota/http.sock"`}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return wrong
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return wrong
	}
	return problem{}
}

// checkAccount is the rule of names of users and groups. Whether there are such is another question.
func checkAccount(s string) problem {
	if err := jobs.CheckAccountName(s); err != nil {
		return problem{text: show(s) + " " + err.Error()}
	}
	return problem{}
}

// checkZone asks the package that will use the zone, with a spec that is right.
func checkZone(zone string) problem {
	_, err := schedule.Parse(zone, "@daily")
	for _, err := range joined(err) {
		return problem{text: strings.TrimPrefix(err.Error(), "timezone: ")}
	}
	return problem{}
}
