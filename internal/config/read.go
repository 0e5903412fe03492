package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// read checks the values of one table against its keys and stores them. Every value is looked
// at, whatever is wrong with another. Scope is the table's name in [later]: "" for the top, "jobs"
// for all job keys. It answers whether all is well.
func read(at place, scope string, values map[string]any, keys []key) bool {
	fine := true
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, at := values[name], at.in(name)
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			if at.rep != nil {
				at.fault(unknown(at, v, keys))
			}
			fine = false
			continue
		}
		if !keys[i].set(at, v) {
			fine = false
			continue
		}
		if text := notYet(scope, keys[i], v); text != "" {
			at.faultf("%s", text)
			fine = false
		}
	}
	return fine
}

// setDefaults stores the default of every key that has one.
func setDefaults(keys []key) {
	for _, k := range keys {
		if k.def != nil {
			k.set(place{}, k.def)
		}
	}
}

// notYet says that v asks for a part that is not built, or "". The default never does: it is
// how Rota behaves without that part, so that config.example.toml can be taken as it is.
func notYet(scope string, k key, v any) string {
	name := k.name
	if scope != "" {
		name = scope + "." + name
	}
	unbuilt := later()
	if slices.Contains(unbuilt, name) && !reflect.DeepEqual(v, k.def) {
		return "not yet supported"
	}
	if s, ok := v.(string); ok && slices.Contains(unbuilt, name+"="+s) {
		return show(s) + " is not yet supported"
	}
	return ""
}

// unknown is what to say of the key at a place that none of keys has: the best guess at what was
// meant. A name that is right elsewhere is taken for a key in the wrong table before it is taken
// for a misspelt one, because in TOML a key belongs to the last [header] above it, whatever its
// indentation says; and that goes unseen longer than a slip of the keyboard.
func unknown(at place, v any, keys []key) problem {
	name := at.path[len(at.path)-1]
	pr := problem{text: "unknown key"}
	values, isTable := v.(map[string]any)
	if _, isArray := v.([]map[string]any); isTable || isArray {
		pr.text = "unknown table"
	}

	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	near := nearest(name, names)
	switch home := belongs(at, name); {
	case strings.EqualFold(near, name):
		pr.hint = fmt.Sprintf("did you mean %q? upper and lower case differ", near)
	case len(at.path) == 1 && isTable && looksLikeJob(values):
		pr.hint = "the table of a job is [jobs.NAME]"
	case len(at.path) > 2 && isTable && at.path[0] == "jobs" && looksLikeJob(values):
		pr.hint = fmt.Sprintf("a name with a dot needs quotes: [jobs.%q]", strings.Join(at.path[1:], "."))
	case home != "":
		pr.hint = "it belongs " + home
	case near != "":
		pr.hint = fmt.Sprintf("did you mean %q?", near)
	}
	return pr
}

// belongs says where a key of that exact name would be right, or "". Keys of jobs count only
// for who stands at the top, in a job or in its defaults: elsewhere a slip of the keyboard is
// likelier.
func belongs(at place, name string) string {
	top := at.rep.settings()
	for _, k := range top {
		if k.name == name && k.kind != aTable {
			return "at the top of the file, above the first [table]"
		}
	}
	for _, table := range top {
		if !slices.ContainsFunc(table.keys, func(k key) bool { return k.name == name }) {
			continue
		}
		home, depth := table.name, 1
		switch table.name {
		case "notify":
			continue
		case "jobs":
			switch {
			case len(at.path) == 1:
				home = "jobs.NAME"
			case at.path[0] == "defaults":
				home = "defaults"
			case at.path[0] == "jobs":
				home, depth = toml.Key(at.path[:2]).String(), 2
			default:
				continue
			}
		}
		// It was meant for its home and came too late: a table of that began above it.
		if own := at.path[:len(at.path)-1]; len(own) > depth && at.src.header(own) && toml.Key(own[:depth]).String() == home {
			return fmt.Sprintf("in [%s], above [%s]", home, toml.Key(own))
		}
		return "in [" + home + "]"
	}
	return ""
}

// looksLikeJob tells a job in the wrong place from a table of any other kind.
func looksLikeJob(values map[string]any) bool {
	for _, k := range []string{"schedule", "command", "shell"} {
		if _, ok := values[k]; ok {
			return true
		}
	}
	return false
}

// misspelt tells whether a job lacks something only because it stands under a name that
// is not quite right, or one table too deep, and was reported with that.
func misspelt(name string, values map[string]any, keys []key) bool {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	for n, v := range values {
		if inner, ok := v.(map[string]any); ok && inner[name] != nil {
			return true
		}
		if !slices.Contains(names, n) && nearest(n, names) == name {
			return true
		}
	}
	return false
}
