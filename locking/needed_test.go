package locking

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestNeeded(t *testing.T) {
	const prelude = `-- A comment that names three.
local LIMIT, REST = 5, 6
-- one is used by two.
local function one(n)
  local inner = n -- three
  return inner + LIMIT
end

local function two(n) return one(n) * 2 end

local function three(n)
  return n
end
`
	for _, c := range []struct{ body, want string }{
		{"return 1", ""},
		{"return REST", "LIMIT"},
		{"return one(1)", "LIMIT one"},
		{"return two(1)", "LIMIT one two"},
		{"return three(1)", "three"},
		{"return 1 -- three(1)", ""},
		{"local thirty_three = 1 return thirty_three", ""},
	} {
		var got []string
		for _, d := range strings.Split("\n"+needed(prelude, c.body), "\nlocal ")[1:] {
			name, _, _ := strings.Cut(strings.TrimPrefix(d, "function "), "(")
			name, _, _ = strings.Cut(name, ",")
			got = append(got, name)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("of %q: got the definitions %q, want %q", c.body, s, c.want)
		}
	}
}

// Whatever a prelude has outside its definitions would be lost, or would become part of one.
func TestPrelude_IsAListOfDefinitions(t *testing.T) {
	for i, line := range strings.Split(prelude, "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "--")
		if line != "" && line != "end" && !indented && !strings.HasPrefix(line, "local ") {
			t.Errorf("lease.lua:%d: got %q, want a definition, its inside or its end", i+1, line)
		}
		if code, _, ok := strings.Cut(line, "--"); ok && strings.Count(code, "'")%2 == 1 {
			t.Errorf("lease.lua:%d: -- stands in a string", i+1)
		}
	}
}

func TestScript_PreludesOfTheCaller(t *testing.T) {
	onBoth(t, func(t *testing.T, c *redis.Client) {
		script := NewScript("local function add(n) return int(n + 1) end\nlocal function fails() return nothing.there end\n", "return add(ARGV[1])")
		if v, err := script.Run(t.Context(), c, []string{"k"}, 41); err != nil || v != "42" {
			t.Errorf("got %v, %v, want 42", v, err)
		}
		if strings.Contains(script.text, "fails") || strings.Contains(script.text, "lease_renew") {
			t.Errorf("got %q, want nothing that the body does not use", script.text)
		}
	})
}
