package redistest

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Monitor records every command that a server handles, from the moment it was made.
type Monitor struct {
	s *ServerProc

	mu     sync.Mutex
	seen   []Seen
	marked chan string
}

// Seen is one command that a server handled.
type Seen struct {
	Args []string
	Lua  bool // called by a script
}

// Is tells whether the command has this name, in any case.
func (s Seen) Is(name string) bool { return len(s.Args) > 0 && strings.EqualFold(s.Args[0], name) }

// Monitor starts to record, by the command MONITOR. It ends with the test.
func (s *ServerProc) Monitor() *Monitor {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.Addr())
	if err != nil {
		s.t.Fatalf("redistest: monitor: %v", err)
	}
	m := &Monitor{s: s, marked: make(chan string, 16)}
	var reader sync.WaitGroup
	s.t.Cleanup(func() {
		_ = conn.Close()
		reader.Wait()
	})
	r := bufio.NewReader(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		s.t.Fatalf("redistest: monitor: %v", err)
	}
	if line, err := r.ReadString('\n'); err != nil || line != "+OK\r\n" {
		s.t.Fatalf("redistest: monitor: %q, %v", line, err)
	}
	reader.Go(func() { m.read(r) })
	return m
}

// Commands returns what the server has handled so far, oldest first. MONITOR comes over a
// connection of its own and may lag, so it sends a mark and waits until that is seen.
func (m *Monitor) Commands() []Seen {
	m.s.t.Helper()
	mark := "mark " + strconv.FormatInt(time.Now().UnixNano(), 36)
	m.s.Do("ECHO", mark)
	timeout := time.After(startTimeout)
	for {
		select {
		case got := <-m.marked:
			if got == mark {
				m.mu.Lock()
				defer m.mu.Unlock()
				return append([]Seen(nil), m.seen...)
			}
		case <-timeout:
			m.s.t.Fatalf("redistest: monitor has not seen its mark within %s", startTimeout)
		}
	}
}

// Count returns how many commands of this name clients have sent; those that scripts call
// do not count.
func (m *Monitor) Count(name string) int {
	m.s.t.Helper()
	n := 0
	for _, s := range m.Commands() {
		if !s.Lua && s.Is(name) {
			n++
		}
	}
	return n
}

func (m *Monitor) read(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		s, ok := parseMonitor(line)
		if !ok || s.Is("HELLO") || s.Is("CLIENT") {
			continue
		}
		if s.Is("ECHO") && len(s.Args) == 2 && strings.HasPrefix(s.Args[1], "mark ") {
			m.marked <- s.Args[1]
			continue
		}
		m.mu.Lock()
		m.seen = append(m.seen, s)
		m.mu.Unlock()
	}
}

// A line of MONITOR: +1700000000.123456 [0 127.0.0.1:60866] "set" "a" "\x00".
var monitorLine = regexp.MustCompile(`^\+[\d.]+ \[\d+ (\S+)\] (.*)\r\n$`)

func parseMonitor(line string) (Seen, bool) {
	parts := monitorLine.FindStringSubmatch(line)
	if parts == nil {
		return Seen{}, false
	}
	s := Seen{Lua: parts[1] == "lua"}
	for rest := parts[2]; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return Seen{}, false
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return Seen{}, false
		}
		s.Args, rest = append(s.Args, arg), rest[len(quoted):]
	}
	return s, true
}
