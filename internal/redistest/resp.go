package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The Redis protocol as far as a proxy must understand it: where a command and where a reply
// end (Redis documentation, "Redis serialization protocol specification"). What is read is
// passed on byte by byte.

// readCommand reads one command, an array of bulk strings or an inline line.
func readCommand(r *bufio.Reader) (args []string, raw []byte, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	raw = []byte(line)
	if line[0] != '*' {
		return strings.Fields(line), raw, nil
	}
	n, err := length(line)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		start := len(raw)
		if raw, err = readFrame(r, raw); err != nil {
			return nil, nil, err
		}
		bulk := string(raw[start:])
		_, body, _ := strings.Cut(bulk, "\r\n")
		args = append(args, strings.TrimSuffix(body, "\r\n"))
	}
	return args, raw, nil
}

// readReply reads one reply and tells whether it is a push, which answers no command.
func readReply(r *bufio.Reader) (raw []byte, push bool, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, false, err
	}
	raw, err = readFrame(r, nil)
	return raw, first[0] == '>', err
}

// readFrame appends one value, with all that is in it, to raw.
func readFrame(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	raw = append(raw, line...)
	inside := 0
	switch line[0] { // all other types are whole in their line
	case '$', '=', '!':
		n, err := length(line)
		if err != nil || n < 0 {
			return raw, err
		}
		body := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		return append(raw, body...), nil
	case '*', '~', '>':
		inside, err = length(line)
	case '%':
		inside, err = length(line)
		inside *= 2
	case '|': // attributes, and then the value that they are of
		inside, err = length(line)
		inside = 2*inside + 1
	}
	if err != nil {
		return nil, err
	}
	for range inside {
		if raw, err = readFrame(r, raw); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

func length(line string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return 0, fmt.Errorf("redistest: %q is no length: %w", line, err)
	}
	return n, nil
}
