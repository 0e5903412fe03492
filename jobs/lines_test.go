package jobs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// collect returns a Lines and where its lines go; "+" marks one that goes on.
func collect() (*Lines, *[]string) {
	var lines []string
	return NewLines(func(line string, continued bool) {
		if continued {
			line += "+"
		}
		lines = append(lines, line)
	}), &lines
}

func TestLines_Splits(t *testing.T) {
	full := strings.Repeat("x", MaxLineBytes)
	for _, c := range []struct {
		name string
		in   []string
		want []string
	}{
		{"nothing", nil, nil},
		{"whole lines", []string{"a\nb\n"}, []string{"a", "b"}},
		{"lines in pieces", []string{"a", "b\nc", "", "d\n"}, []string{"ab", "cd"}},
		{"empty lines", []string{"\n\na\n\n"}, []string{"", "", "a", ""}},
		{"a last line without its end", []string{"a\nb"}, []string{"a", "b"}},
		{"CR LF", []string{"a\r\nb\r", "\nc\r\r\nd\re\r"}, []string{"a", "b", "c\r", "d\re"}},
		{"a line of the limit", []string{full + "\nb\n"}, []string{full, "b"}},
		{"a line of the limit in pieces", []string{full[:10], full[10:], "\nb\n"}, []string{full, "b"}},
		{"a line one longer", []string{full + "y\n"}, []string{full + "+", "y"}},
		{"a line without end", []string{full, full, "z"}, []string{full + "+", full + "+", "z"}},
		{"a character across the limit", []string{full[1:] + "ä\n"}, []string{full[1:] + "+", "ä"}},
		{"bytes that are no text", []string{full[1:] + "\xff\xff\n"}, []string{full[1:] + "\xff+", "\xff"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, got := collect()
			for _, s := range c.in {
				if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
					t.Errorf("Write = %d, %v; want %d, nil", n, err, len(s))
				}
			}
			if err := l.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
			if !slices.Equal(*got, c.want) {
				t.Errorf("Write(%.50q): got %.200q, want %.200q", c.in, *got, c.want)
			}
		})
	}
}

func TestLines_Closed(t *testing.T) {
	l, got := collect()
	_, _ = l.Write([]byte("a"))
	_ = l.Close()
	_ = l.Close()
	if n, err := l.Write([]byte("b\n")); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Write after Close = %d, %v; want 0, %v", n, err, io.ErrClosedPipe)
	}
	if !slices.Equal(*got, []string{"a"}) {
		t.Errorf("lines %q, want a alone", *got)
	}
}

func FuzzLines_LoseNothing(f *testing.F) {
	f.Add("a\r\nb\nc", uint8(2), 10)
	f.Add("ä\n", uint8(1), MaxLineBytes-1)
	f.Fuzz(func(t *testing.T, text string, step uint8, padding int) {
		text = strings.Repeat("x", min(max(padding, 0), 2*MaxLineBytes)) + text
		var back strings.Builder
		l := NewLines(func(line string, continued bool) {
			if len(line) > MaxLineBytes || strings.Contains(line, "\n") {
				t.Errorf("a line of %d bytes", len(line))
			}
			if utf8.ValidString(text) && !utf8.ValidString(line) {
				t.Errorf("line %.50q is not UTF-8", line)
			}
			back.WriteString(line)
			if !continued {
				back.WriteByte('\n')
			}
		})
		for rest := text; len(rest) > 0; {
			n := min(int(step)*200+1, len(rest))
			_, _ = l.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		_ = l.Close()
		want := strings.ReplaceAll(text+"\n", "\r\n", "\n")
		if strings.HasSuffix(text, "\n") {
			want = strings.TrimSuffix(want, "\n")
		}
		if text == "" {
			want = ""
		}
		if back.String() != want {
			t.Errorf("%.100q came back as %.100q", want, back.String())
		}
	})
}

func TestLines_Concurrent(t *testing.T) {
	l, got := collect()
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 500 {
				_, _ = fmt.Fprintf(l, "%s\n", strings.Repeat(string(rune('a'+i)), 200))
			}
		})
	}
	writers.Wait()
	if len(*got) != 4000 {
		t.Fatalf("%d lines, want 4000", len(*got))
	}
	for _, line := range *got {
		if line != strings.Repeat(line[:1], 200) {
			t.Fatalf("a mixed line: %q", line)
		}
	}
}
