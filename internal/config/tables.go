package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"
)

// pairs is a table of texts under names that the user chooses. It is added to what is in dst
// already, so that a job's own pairs win over those of [defaults] one by one.
//
// No message shows a value: environments and headers are where secrets are.
func pairs(name string, dst *map[string]string, wrong func(name, value string) problem) key {
	return key{name: name, kind: aTable, def: map[string]any{}, set: func(at place, v any) bool {
		table, ok := v.(map[string]any)
		if !ok {
			return at.wrongType(aTable, v)
		}
		merged := maps.Clone(*dst)
		if merged == nil {
			merged = make(map[string]string, len(table))
		}
		fine := true
		for _, name := range slices.Sorted(maps.Keys(table)) {
			s, ok := table[name].(string)
			if !ok {
				at.in(name).fault(notText(table[name]))
				fine = false
			} else if pr := wrong(name, s); pr.text != "" {
				at.in(name).fault(pr)
				fine = false
			}
			merged[name] = s
		}
		*dst = merged
		return fine
	}}
}

// swallowsNothing guards such a table. Below a [header] of it, a key that was meant for the table
// above becomes one of those names, and nothing would say so: a timeout would be gone. So the names
// of those keys are refused there, and one is what they are then. An inline table has no end that
// can be overlooked, and may have them.
func swallowsNothing(k key, one string, meant func() []key) key {
	plain := k.set
	k.set = func(at place, v any) bool {
		table, ok := v.(map[string]any)
		if !ok || at.src == nil || !at.src.header(at.path) {
			return plain(at, v)
		}
		rest, fine := maps.Clone(table), true
		for _, m := range meant() {
			if _, ok := rest[m.name]; !ok {
				continue
			}
			at.in(m.name).fault(problem{
				fmt.Sprintf("is swallowed by [%s]: there it is %s, not a setting", toml.Key(at.path), one),
				fmt.Sprintf("move it above that header, or write %s = { %s = … } if %s is meant", k.name, m.name, one),
			})
			delete(rest, m.name)
			fine = false
		}
		return plain(at, rest) && fine
	}
	return k
}

// table has keys of its own, which are read like those of any table. Its default is made of theirs,
// so that setting it sets all of them.
func table(name string, keys ...key) key {
	def := make(map[string]any)
	for _, k := range keys {
		if k.def != nil {
			def[k.name] = k.def
		}
	}
	return key{name: name, kind: aTable, def: def, keys: keys, set: func(at place, v any) bool {
		values, ok := v.(map[string]any)
		if !ok {
			return at.wrongType(aTable, v)
		}
		return read(at, name, values, keys)
	}}
}

// named is a table of tables under names that the user chooses, as [jobs.NAME], each with the same
// keys. It says what the usual slips are: an array of tables, as other formats have it, and a key
// that stands above the first header with a name.
func named(name string, keys []key, each func(at place, values map[string]any) bool) key {
	return key{name: name, kind: aTable, keys: keys, set: func(at place, v any) bool {
		tables, ok := v.(map[string]any)
		if _, isArray := v.([]map[string]any); isArray {
			at.fault(problem{"is an array of tables", "write [" + name + ".NAME], with a name"})
			return false
		}
		if !ok {
			return at.wrongType(aTable, v)
		}
		fine := true
		for _, n := range slices.Sorted(maps.Keys(tables)) {
			at := at.in(n)
			if pr := checkName(n); pr.text != "" {
				at.fault(pr)
				fine = false
			}
			switch values := tables[n].(type) {
			case map[string]any:
				fine = each(at, values) && fine
			case []map[string]any:
				at.fault(problem{"is an array of tables", "write single brackets"})
				fine = false
			default:
				at.fault(problem{"stands outside of any [" + name + ".NAME]", "put it below such a header"})
				fine = false
			}
		}
		return fine
	}}
}
