package config

import (
	"cmp"
	"fmt"
	"io/fs"
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
	login, pr := splitURL(l.url)
	if pr.text != "" {
		at.in("url").fault(pr)
	}
	r.URL = login.url
	if login.user != "" && r.Username != "" {
		at.in("username").fault(problem{"a user is given in redis.url too", "keep one"})
	}
	r.Username = cmp.Or(r.Username, login.user)

	// Two passwords are refused rather than ranked: the one that is not used would be the one that
	// somebody changes.
	var given []string
	for _, from := range []struct{ key, value string }{
		{"url", login.password}, {"password", l.password}, {"password_file", l.passwordFile},
	} {
		if from.value == "" {
			continue
		}
		given = append(given, from.key)
		switch {
		case len(given) > 1:
			at.in(from.key).fault(problem{"a password is given in redis." + given[0] + " too", "keep one"})
		case from.key == "password_file":
			r.Password = l.readSecret(at.in(from.key), from.value)
		default:
			r.Password = NewSecret(from.value)
			if main.Mode().IsRegular() && main.Mode().Perm()&0o004 != 0 {
				at.in(from.key).warn(problem{
					fmt.Sprintf("everybody can read the password in this file (mode %04o)", main.Mode().Perm()),
					"use password_file, or chmod 0640",
				})
			}
		}
	}
	// The client sends no user without a password, and would be somebody else to Redis.
	if r.Username != "" && len(given) == 0 && pr.text == "" {
		key := "username"
		if login.user != "" {
			key = "url"
		}
		at.in(key).fault(problem{"names a user and no password", "a password alone is written redis://:PASSWORD@HOST"})
	}
}

// login is what a Redis URL says, told apart.
type login struct{ url, user, password string }

// splitURL checks a URL by the rules of go-redis' ParseURL, less its query options: some of them
// would undo what the locks rest on. No message has any part of the URL in it, because with one
// character of a password that is not percent-encoded every part may be a piece of it.
func splitURL(s string) (login, problem) {
	if s == embedded {
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
		if u.Host != "" || u.Path == "" || u.Path[0] != '/' {
			return login{}, problem{"names no socket", "write unix:///PATH, with three slashes"}
		}
		if _, err := strconv.ParseUint(cmp.Or(query.Get("db"), "0"), 10, 31); err != nil {
			return login{}, problem{text: "db is not the number of a database"}
		}
		query.Del("db")
	default:
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
