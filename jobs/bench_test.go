//go:build linux

package jobs

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What a run costs beyond the fork and exec of the same program.
func BenchmarkCommand_Run(b *testing.B) {
	env := BaseEnv(nil, "", nil)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.CommandContext(b.Context(), "/bin/true")
			cmd.Env = env
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	warden, err := StartWarden(WardenOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer warden.Close()
	for _, with := range []*Warden{nil, warden} {
		b.Run(map[bool]string{true: "run", false: "run in a warden"}[with == nil], func(b *testing.B) {
			cmd := Command{Args: []string{"/bin/true"}, Base: env, Warden: with}
			out := NewOutput(16 << 10)
			for b.Loop() {
				if got := cmd.Run(b.Context(), Run{ID: rand.Text(), Output: out}); got.Outcome != Succeeded {
					b.Fatal(got)
				}
			}
		})
	}
}

// What the search at the end of a run costs, by the number of processes of the host.
func BenchmarkProcs_Search(b *testing.B) {
	for _, more := range []int{0, 1000} {
		b.Run(fmt.Sprintf("%d more", more), func(b *testing.B) {
			sleeping := make([]*exec.Cmd, more)
			for i := range sleeping {
				sleeping[i] = exec.CommandContext(b.Context(), "sleep", "300")
				sleeping[i].Env = append(os.Environ(), "PADDING="+strings.Repeat("x", 1500))
				if err := sleeping[i].Start(); err != nil {
					b.Fatal(err)
				}
			}
			p := newProcs(os.Getpid(), rand.Text(), newEnvirons())
			for b.Loop() {
				if err := p.search(); err != nil {
					b.Fatal(err)
				}
			}
			for _, cmd := range sleeping {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
	}
}

func BenchmarkLines(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 79)+"\n", 400))
	l := NewLines(func(string, bool) {})
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, _ = l.Write(text)
	}
}
