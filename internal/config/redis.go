package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
)

// embedded, as redis.url, is a Redis of the daemon's own.
const embedded = "embedded"

// maxSecretBytes is above any password; a file that has more is some other file.
const maxSecretBytes = 64 << 10

// finishRedis takes user and password out of the URL, where every log of a client would find
// them, and puts them together with what else is said of them. main is the config's file, which
// others should not be able to read if there is a password in it.
//
// Of a torn file nothing is concluded: the password may be in the part that is missing.
func (l *loader) finishRedis(at place, main fs.FileInfo) {
	if at.src.torn {
		return
	}
	r := &l.cfg.Redis
	if len(r.Addrs) > 0 && at.src.lineOf(at.in("url").path) == 0 {
		l.url = "redis:///0" // the default names one server
	}
	login, pr := splitURL(l.url, len(r.Addrs) > 0)
	if pr.text != "" {
		at.in("url").fault(pr)
	}
	r.URL = login.url
	if login.user != "" && r.Username != "" {
		at.in("username").fault(problem{"a user is given in redis.url too", "keep one"})
	}
	r.Username = cmp.Or(r.Username, login.user)
	given := 0
	r.Password, given = l.password(at, main, []said{
		{"url", login.password, false}, {"password", l.redisPassword, false}, {"password_file", l.passwordFile, true},
	})
	// The client sends no user without a password, and would be somebody else to Redis.
	if r.Username != "" && given == 0 && pr.text == "" {
		key := "username"
		if login.user != "" {
			key = "url"
		}
		at.in(key).fault(problem{"names a user and no password", "a password alone is written redis://:PASSWORD@HOST"})
	}
	l.finishSentinels(at, main)
	if pr.text != "" {
		return // what follows from it says nothing
	}
	if r.Embedded() && r.WaitReplicas > 0 {
		at.in("wait_replicas").faultf("is %d, and the embedded Redis has no replica", r.WaitReplicas)
	}
	if len(r.Addrs) > 0 && r.Master == "" && login.db != "" && login.db != "0" {
		at.in("url").fault(problem{"names database " + login.db + ", and a Cluster has 0 alone", "of Sentinels, name the master"})
	}
	l.finishTLS(at.in("tls"), strings.HasPrefix(r.URL, "rediss:"))
}

// finishSentinels puts together how the Sentinels are reached. They have a login of their own: that of
// the server they never see.
func (l *loader) finishSentinels(at place, main fs.FileInfo) {
	r := &l.cfg.Redis
	if r.Master == "" {
		for _, k := range []said{{"sentinel_username", r.SentinelUsername, false}, {"sentinel_password_file", l.sentinelPasswordFile, true}} {
			if k.value != "" {
				at.in(k.key).fault(problem{"is for Sentinels, and no master is named", "set redis.master and redis.addrs"})
			}
		}
		return
	}
	if len(r.Addrs) == 0 && !l.rep.blames("redis.addrs") {
		at.in("master").fault(problem{"names a master, and redis.addrs no Sentinel", `write addrs = ["HOST:26379"]`})
	}
	given := 0
	r.SentinelPassword, given = l.password(at, main, []said{{"sentinel_password_file", l.sentinelPasswordFile, true}})
	if r.SentinelUsername != "" && given == 0 {
		at.in("sentinel_username").fault(problem{"names a user and no password", "set sentinel_password_file"})
	}
}

// said is a password, or the name of its file, by the key under which it is given.
type said struct {
	key, value string
	file       bool
}

// password takes the one that is given, and tells how many are. Two are refused rather than ranked: the
// one that is not used would be the one that somebody changes.
func (l *loader) password(at place, main fs.FileInfo, all []said) (password Secret, given int) {
	first := ""
	for _, from := range all {
		if from.value == "" {
			continue
		}
		given++
		first = cmp.Or(first, from.key)
		switch {
		case given > 1:
			at.in(from.key).fault(problem{"a password is given in redis." + first + " too", "keep one"})
		case from.file:
			password = l.readSecret(at.in(from.key), from.value)
		default:
			password = NewSecret(from.value)
			if main.Mode().IsRegular() && main.Mode().Perm()&0o004 != 0 {
				at.in(from.key).warn(problem{
					fmt.Sprintf("everybody can read the password in this file (mode %04o)", main.Mode().Perm()),
					"use password_file, or chmod 0640",
				})
			}
		}
	}
	return password, given
}

// login is what a Redis URL says, told apart.
type login struct{ url, user, password, db string }

// splitURL checks a URL by the rules of go-redis' ParseURL, less its query options: some of them
// would undo what the locks rest on. With several servers the URL says how they are reached and which
// database it is, and names none itself. No message has any part of the URL in it, because with one
// character of a password that is not percent-encoded every part may be a piece of it.
func splitURL(s string, several bool) (login, problem) {
	if s == embedded && !several {
		return login{url: s}, problem{}
	}
	const encode = `in a password, write @ / # ? : and % as %40 %2F %23 %3F %3A and %25, or use password_file`
	u, err := url.Parse(s)
	if err != nil {
		return login{}, problem{"is not a valid URL", encode}
	}
	out := login{user: u.User.Username()}
	out.password, _ = u.User.Password()
	query := u.Query()
	switch u.Scheme {
	case "redis", "rediss":
		db := strings.Trim(u.Path, "/")
		if n, err := strconv.ParseUint(cmp.Or(db, "0"), 10, 31); err != nil || n > 1<<20 {
			return login{}, problem{"the part after the host is not the number of a database", encode}
		}
		out.db = db
		if several {
			if u.Host != "" {
				return login{}, problem{"names a host, and redis.addrs does too", "write rediss:///0 for TLS to all of them, or leave it out"}
			}
			break
		}
		if port := u.Port(); port != "" {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				return login{}, problem{"the port is not between 1 and 65535", encode}
			}
		}
		host := u.Hostname()
		if host == "" {
			return login{}, problem{"names no host", "write redis://HOST:PORT/DB"}
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.Trim(host, alphanumeric+"._-") != "" {
			return login{}, problem{"does not have a valid host", encode}
		}
	case "unix":
		if several {
			return login{}, problem{"is a socket, and redis.addrs names servers", "keep one"}
		}
		if u.Host != "" || u.Path == "" || u.Path[0] != '/' {
			return login{}, problem{"names no socket", "write unix:///PATH, with three slashes"}
		}
		if _, err := strconv.ParseUint(cmp.Or(query.Get("db"), "0"), 10, 31); err != nil {
			return login{}, problem{text: "db is not the number of a database"}
		}
		query.Del("db")
	default:
		if several {
			return login{}, problem{"does not go with redis.addrs", "write redis:///DB or rediss:///DB, or leave it out"}
		}
		return login{}, problem{"is not a Redis URL", `write redis://HOST:PORT/DB, rediss://…, unix:///PATH or "embedded"`}
	}
	if u.Fragment != "" || u.RawFragment != "" || strings.HasSuffix(s, "#") {
		return login{}, problem{"holds a #", encode}
	}
	if len(query) > 0 || u.ForceQuery {
		return login{}, problem{"holds options after a ?", "there are keys for what can be set; " + encode}
	}
	u.User = nil
	out.url = u.String()
	return out, problem{}
}

// readSecret reads a password file. The line end that every editor leaves is not part of it.
func (l *loader) readSecret(at place, path string) Secret {
	path = l.credential(filepath.Dir(at.src.name), path)
	info, err := l.files.stat(path)
	if err != nil {
		at.fault(unreadable(path, err))
		return Secret{}
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretBytes {
		at.fault(problem{text: strconv.Quote(path) + " is not a file with a password in it"})
		return Secret{}
	}
	text, info, err := l.files.read(path)
	if err != nil {
		at.fault(unreadable(path, err))
		return Secret{}
	}
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case password == "":
		at.fault(problem{text: strconv.Quote(path) + " is empty"})
	case strings.ContainsAny(password, "\r\n\x00"):
		at.fault(problem{text: strconv.Quote(path) + " has more than one line"})
	case info.Mode().Perm()&0o004 != 0:
		at.warn(problem{fmt.Sprintf("everybody can read %s (mode %04o)", strconv.Quote(path), info.Mode().Perm()), "chmod 0600"})
	}
	return NewSecret(password)
}

// checkAddr is the rule of an address to connect to. It is not resolved. What looks like a URL is not
// shown, for it may have a password in it.
func checkAddr(s string) problem {
	host, port, err := net.SplitHostPort(s)
	wrong := problem{text: show(s) + " is not HOST:PORT"}
	if strings.ContainsAny(s, "@/") {
		wrong = problem{"an element is no HOST:PORT but a URL", "redis.url says what is the same for all of them: rediss:///0 for TLS"}
	}
	if err != nil || host == "" {
		return wrong
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return wrong
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Trim(host, alphanumeric+"._-") != "" {
		return wrong
	}
	return problem{}
}
