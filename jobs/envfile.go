//go:build linux

package jobs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// maxEnvFileBytes is far above any environment: the kernel takes 6 MiB at most, the arguments among
// them (execve(2)), and other files are larger.
const maxEnvFileBytes = 4 << 20

// ReadEnvFile reads the variables of a file, see [ParseEnv]. The error names the file and, if what it
// holds is wrong, the line; never anything of what it holds. It matches that of the operating system, if
// there was one.
func ReadEnvFile(path string) ([]string, error) {
	// Without O_NONBLOCK a FIFO that nobody writes to would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(&os.PathError{Op: "read", Path: path, Err: errNotRegular}, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFileBytes+1))
	if err != nil {
		return nil, err
	}
	env, err := ParseEnv(string(text))
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return env, nil
}

var errNotRegular = errors.New("not a regular file")

// ParseEnv reads variables from the text of a file, as "NAME=VALUE" in its order, a name maybe twice.
// The rules are those of systemd.exec(5), EnvironmentFile=, but that what it passes over is refused:
//
//	NAME=value      one a line, blanks around name and value left out; none is expanded, as $HOME
//	NAME=a\ b\\     outside of quotes a backslash takes the next character as it is, and at the end
//	                of a line joins it with the next
//	NAME='a b'      as it stands, over several lines too
//	NAME="a \"b\""  likewise, but that a backslash takes one of " \ ` $ as it is, and joins lines
//	# and ;         begin a comment where they stand first in a line, and nowhere else
//
// Quotes count where a value begins, and nothing may follow the closing one. Names are letters, digits
// and _, without a digit first; those that begin with ROTA_ are not theirs to set. The text is UTF-8
// without NUL; a byte order mark is passed over.
//
// The error says in which line what is wrong, and shows nothing of it: a line that has slipped may be
// a piece of a secret, before the = too.
func ParseEnv(text string) ([]string, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	switch {
	case len(text) > maxEnvFileBytes:
		return nil, fmt.Errorf("larger than %d bytes", maxEnvFileBytes)
	case !utf8.ValidString(text):
		return nil, errors.New("not UTF-8")
	}
	p := envParser{rest: strings.ReplaceAll(text, "\r\n", "\n")}
	var env []string
	for p.line = 1; p.rest != ""; {
		at := p.line
		entry, err := p.entry()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		if entry != "" {
			env = append(env, entry)
		}
	}
	return env, nil
}

// An envParser has the rest of a file, and the number of its first line.
type envParser struct {
	rest string
	line int
}

const blanks = " \t\r"

// entry takes a line, or as many as the value goes on for. It is "" if there is nothing in it.
func (p *envParser) entry() (string, error) {
	p.rest = strings.TrimLeft(p.rest, blanks)
	line, _, _ := strings.Cut(p.rest, "\n")
	if line == "" || line[0] == '#' || line[0] == ';' {
		p.skip(len(line) + 1)
		return "", nil
	}
	name, _, found := strings.Cut(line, "=")
	if !found {
		return "", errors.New(`it has no "=", and is neither empty nor a comment`)
	}
	p.skip(len(name) + 1)
	switch name = strings.TrimRight(name, blanks); {
	case strings.HasPrefix(name, "export "):
		return "", errors.New(`it is shell: leave "export" out`)
	case !isVariable(name):
		return "", errors.New(`what stands before the "=" is not the name of a variable`)
	case strings.HasPrefix(name, reserved):
		return "", errors.New("variables that begin with " + reserved + " are set by Rota alone")
	}
	value, err := p.value()
	if err == nil && strings.ContainsRune(value, 0) {
		err = errors.New("it holds a NUL character")
	}
	return name + "=" + value, err
}

// value takes what stands behind the =.
func (p *envParser) value() (string, error) {
	p.rest = strings.TrimLeft(p.rest, blanks)
	if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\'' {
		return p.plain(), nil
	}
	quote := p.rest[0]
	p.skip(1)
	var value strings.Builder
	for {
		switch {
		case p.rest == "":
			return "", errors.New("its quote is never closed")
		case p.rest[0] == quote:
			p.skip(1)
			rest, _, _ := strings.Cut(p.rest, "\n")
			if strings.Trim(rest, blanks) != "" {
				return "", errors.New("something follows the closing quote")
			}
			p.skip(len(rest) + 1)
			return value.String(), nil
		case quote == '"' && p.rest[0] == '\\' && len(p.rest) > 1 && strings.IndexByte("\"\\`$\n", p.rest[1]) >= 0:
			if p.rest[1] != '\n' {
				value.WriteByte(p.rest[1])
			}
			p.skip(2)
		default:
			value.WriteByte(p.rest[0])
			p.skip(1)
		}
	}
}

// plain takes a value without quotes. Blanks at its end belong to it only if they are escaped.
func (p *envParser) plain() string {
	var value strings.Builder
	kept := 0
	for p.rest != "" && p.rest[0] != '\n' {
		if p.rest[0] == '\\' && len(p.rest) > 1 {
			if p.rest[1] != '\n' {
				value.WriteByte(p.rest[1])
				kept = value.Len()
			}
			p.skip(2)
			continue
		}
		value.WriteByte(p.rest[0])
		if strings.IndexByte(blanks, p.rest[0]) < 0 {
			kept = value.Len()
		}
		p.skip(1)
	}
	p.skip(1)
	return value.String()[:kept]
}

// skip passes over n bytes, or what there is.
func (p *envParser) skip(n int) {
	n = min(n, len(p.rest))
	p.line += strings.Count(p.rest[:n], "\n")
	p.rest = p.rest[n:]
}

// isVariable is the rule of names: POSIX.1-2024, XBD 8.1, with lower case, which it leaves to
// applications.
func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
