package locking

import (
	"regexp"
	"slices"
	"strings"
)

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaName    = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	luaDefines = regexp.MustCompile(`^local (?:function )?([A-Za-z0-9_, ]+)`)
)

// needed returns what body uses of a prelude, and what that uses, in the prelude's order. Lua makes
// every function of a script anew each time the script runs, called or not: of a renewal, that was
// a third of the server's work.
//
// A prelude is a list of definitions. Each begins with "local" at the start of a line and lasts
// until the next one does. Only definitions that are named by a later part are kept, so a name that
// stands in a string, or is defined once more, at worst keeps one too many. No string has -- in it.
func needed(prelude, body string) string {
	definitions := strings.Split("\n"+prelude, "\nlocal ")[1:]
	used := namesIn(body)
	kept := make([]string, 0, len(definitions))
	for _, definition := range slices.Backward(definitions) {
		text := "local " + luaComment.ReplaceAllString(definition, "")
		defines := luaName.FindAllString(luaDefines.FindStringSubmatch(text)[1], -1)
		for _, name := range defines {
			if used[name] {
				kept = append(kept, text)
				for n := range namesIn(text) {
					used[n] = true
				}
				break
			}
		}
	}
	var b strings.Builder
	for _, text := range slices.Backward(kept) {
		b.WriteString(strings.TrimRight(text, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}

func namesIn(lua string) map[string]bool {
	names := make(map[string]bool)
	for _, n := range luaName.FindAllString(luaComment.ReplaceAllString(lua, ""), -1) {
		names[n] = true
	}
	return names
}
