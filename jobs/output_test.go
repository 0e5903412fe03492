package jobs

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func TestOutput_KeepsBothEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  int
		writes []string
		want   string
	}{
		{"nothing", 8, nil, ""},
		{"less than the limit", 8, []string{"abc", "def"}, "abcdef"},
		{"the limit exactly", 8, []string{"abc", "defgh"}, "abcdefgh"},
		{"one byte more", 8, []string{"abcdefgh", "i"}, "ab\n[... 1 bytes left out ...]\ndefghi"},
		{"much more, in one write", 8, []string{"abcdefghijklmnopqrstuvwxyz"}, "ab\n[... 18 bytes left out ...]\nuvwxyz"},
		{"much more, byte by byte", 8, strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "ab\n[... 18 bytes left out ...]\nuvwxyz"},
		{"a long write into a full ring", 8, []string{"abcdefghij", "klmnopqrstuvwxyz"}, "ab\n[... 18 bytes left out ...]\nuvwxyz"},
		{"a line end before the cut", 8, []string{"a\nbcdefghi"}, "a\n[... 2 bytes left out ...]\ndefghi"},
		{"a limit that has no quarter", 3, []string{"abcdef"}, "[... 3 bytes left out ...]\ndef"},
		{"no limit at all", 0, []string{"abc", ""}, "[... 3 bytes left out ...]\n"},
		{"a negative limit", -1, []string{"abc"}, "[... 3 bytes left out ...]\n"},
		{"a character across the first cut", 12, []string{"abä________äxyzxyzz"}, "ab\n[... 10 bytes left out ...]\näxyzxyzz"},
		{"a character across both cuts", 12, []string{"abä________äxyzxyzz", "z"}, "ab\n[... 12 bytes left out ...]\nxyzxyzzz"},
		{"bytes that are no text", 8, []string{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"}, "\x80\x80\n[... 5 bytes left out ...]\n\x80\x80\x80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := NewOutput(c.limit)
			total := 0
			for _, w := range c.writes {
				if n, err := o.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write(%q) = %d, %v; want %d, nil", w, n, err, len(w))
				}
				total += len(w)
			}
			if got := o.String(); got != c.want {
				t.Errorf("String() = %q, want %q", got, c.want)
			}
			if got := o.Total(); got != int64(total) {
				t.Errorf("Total() = %d, want %d", got, total)
			}
		})
	}
}

// Whatever the sizes of the writes, the ends are those of the whole.
func FuzzOutput_Ends(f *testing.F) {
	f.Add(uint8(8), "abcdefghijklmnopqrstuvwxyz", uint8(3))
	f.Add(uint8(1), "äöü", uint8(1))
	f.Add(uint8(0), "x", uint8(0))
	f.Fuzz(func(t *testing.T, limit uint8, text string, step uint8) {
		o := NewOutput(int(limit))
		for rest := text; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			_, _ = o.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		got := o.String()
		if len(text) <= int(limit) {
			if got != text {
				t.Errorf("String() = %q, want all of %q", got, text)
			}
			return
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("String() = %q is not UTF-8, %q is", got, text)
		}
		// The text may hold a line like the marker; the right one accounts for every byte.
		for cut := range len(got) {
			var left int
			rest := got[cut:]
			if _, err := fmt.Sscanf(rest, "[... %d bytes left out ...]\n", &left); err != nil {
				continue
			}
			tail := rest[strings.Index(rest, "]\n")+2:]
			for _, head := range []string{got[:cut], strings.TrimSuffix(got[:cut], "\n")} {
				if len(head)+left+len(tail) == len(text) && strings.HasPrefix(text, head) && strings.HasSuffix(text, tail) {
					if kept := len(head) + len(tail); kept > int(limit) || kept < int(limit)-6 {
						t.Errorf("kept %d bytes, want %d or up to 6 less", kept, limit)
					}
					return
				}
			}
		}
		t.Errorf("NewOutput(%d): %q became %q: not its two ends with their marker", limit, text, got)
	})
}

func TestOutput_Concurrent(t *testing.T) {
	o := NewOutput(1000)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 1000 {
				_, _ = o.Write([]byte("0123456789"))
				_ = o.Total()
			}
			_ = o.Bytes()
		})
	}
	writers.Wait()
	if got := o.Total(); got != 80000 {
		t.Errorf("Total() = %d, want 80000", got)
	}
	if got := bytes.Count(o.Bytes(), []byte("0123456789")); got < 98 {
		t.Errorf("%d whole writes kept, want about 100: writes are mixed", got)
	}
}

func TestOutput_Memory(t *testing.T) {
	o := NewOutput(1 << 20)
	_, _ = o.Write([]byte("short"))
	if kept := cap(o.head) + cap(o.tail); kept > 64 {
		t.Errorf("5 bytes take %d bytes of memory", kept)
	}
	for range 100 {
		_, _ = o.Write(make([]byte, 100_003))
	}
	if kept := cap(o.head) + cap(o.tail); kept != 1<<20 {
		t.Errorf("a full Output takes %d bytes, want its limit, %d", kept, 1<<20)
	}
}
