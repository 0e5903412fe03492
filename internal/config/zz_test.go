package config

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	info, _ := os.Stat("testdata/good/empty.toml")
	try := func(name, text string) {
		text = text[:min(len(text), 4<<20)]
		st := time.Now()
		_, err := newLoader(plain()).build("rota.toml", []byte(text), info)
		n := 0
		if err != nil {
			n = len(strings.Split(err.Error(), "\n"))
		}
		e := ""
		if err != nil {
			e = err.Error()
		}
		fmt.Printf("%-28s %6d bytes %8d faults %v  %.120s\n", name, len(text), n, time.Since(st), e)
	}
	jobs := func(n int, body string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "[jobs.j%05d]\n"+body+"\n", i)
		}
		return b.String()
	}
	ok := "schedule = \"0 2 * * *\"\ncommand = [\"true\"]\n"
	try("good", jobs(5000, ok))
	try("unknown key", jobs(5000, ok+"timout = \"5s\""))
	try("bare number", jobs(5000, ok+"timeout = 5"))
	try("bad schedule", jobs(5000, "schedule = \"0 2 * *\"\ncommand = [\"true\"]\n"))
}
func TestZY(t *testing.T) {
	info, _ := os.Stat("testdata/good/empty.toml")
	try := func(name, text string) {
		text = text[:min(len(text), 4<<20)]
		st := time.Now()
		_, err := newLoader(plain()).build("rota.toml", []byte(text), info)
		n := 0
		e := ""
		if err != nil {
			e = err.Error()
			n = strings.Count(e, "\n") + 1
		}
		fmt.Printf("%-28s %6d bytes %8d faults %v  %.120s\n", name, len(text), n, time.Since(st), e)
	}
	jobs := func(n int, body string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "[jobs.j%05d]\n"+body+"\n", i)
		}
		return b.String()
	}
	ok := "schedule = \"0 2 * * *\"\ncommand = [\"true\"]\n"
	try("missing", jobs(5000, "schedule = \"0 2 * * *\"\n"))
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "[jobs.j%05d]\n%s[jobs.j%05d.env]\ntimeout = \"5s\"\n", i, ok, i)
	}
	try("env swallow", b.String())
	try("syntax", jobs(5000, ok+"timeout = \"5s"))
	try("syntax array", jobs(5000, "command = [\"x\"\nschedule = \"@daily\""))
	try("dup", strings.Repeat("[jobs.a]\n"+ok, 5000))
	try("short unknown 4M", func() string {
		var b strings.Builder
		for i := range 400000 {
			fmt.Fprintf(&b, "k%d=1\n", i)
		}
		return b.String()
	}())
	try("long header", "["+strings.Repeat("a", 1020)+"]\n"+func() string {
		var b strings.Builder
		for i := range 400000 {
			fmt.Fprintf(&b, "k%d=1\n", i)
		}
		return b.String()
	}())
	try("dup keys 4M", strings.Repeat("a=1\n", 1<<20))
	try("bad lines 4M", strings.Repeat("a b\n", 1<<20))
	try("aot", strings.Repeat("[[a]]\n", 1<<20))
	try("brackets", "a="+strings.Repeat("[],", 1<<20))
	try("nest999", "a="+strings.Repeat(strings.Repeat("[", 999)+strings.Repeat("]", 999)+",", 2000))
	try("inline31", "a=["+strings.Repeat(strings.Repeat("{a=", 30)+"1"+strings.Repeat("}", 30)+",", 30000)+"]")
	try("inlinewide", "a={"+func() string {
		var b strings.Builder
		for i := range 400000 {
			fmt.Fprintf(&b, "k%d=1,", i)
		}
		return b.String()
	}()+"}")
	try("schedule list", "[jobs.a]\ncommand=['x']\nschedule=["+strings.Repeat("'0 2 * * *',", 200000)+"]")
	try("schedule long", "[jobs.a]\ncommand=['x']\nschedule=['"+strings.Repeat("1,", 2000000)+"1 2 * * *']")
	try("labels", "[host]\nlabels=["+strings.Repeat("'',", 1000000)+"]")
	try("hosts", "[jobs.a]\nhosts=["+strings.Repeat("'-',", 1000000)+"]")
	try("escapes", strings.Repeat(`"\\" = 1`+"\n", 400000))
	try("escapekeys", func() string {
		var b strings.Builder
		for i := range 200000 {
			fmt.Fprintf(&b, "\"\\u0041%d\" = 1\n", i)
		}
		return b.String()
	}())
	try("zones", jobs(50000, "schedule=\"TZ=Europe/Rome 0 2 * * *\"\nshell=\"true\""))
	if os.Getenv("TZONLY") == "" {
		try("timezones", jobs(50000, "schedule=\"0 2 * * *\"\nshell=\"true\"\ntimezone=\"Europe/Rome\""))
	}
	try("30feb", jobs(5000, "schedule=\"0 2 30 2 *\"\nshell=\"true\""))
}
