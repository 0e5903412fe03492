package config

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

const shipped = "../../config.example.toml"

// entry is a key as config.example.toml shows it.
type entry struct {
	line      int
	comment   string // the lines above it
	value     string // as TOML
	commented bool
}

var (
	shownHeader = regexp.MustCompile(`^(?:# )?\[([a-z]+)(?:\.[a-z-]+)?\]$`)
	shownKey    = regexp.MustCompile(`^(# )?([a-z_]+) = (.+)$`)
	shownDef    = regexp.MustCompile(`(?s)Default: (.+?)\.( |$)`)
)

// readShipped finds the keys in the file, by "table.key", without a TOML parser: half of them are
// commented out. [defaults] shows keys of jobs a second time and is left out.
func readShipped(t *testing.T) map[string]entry {
	t.Helper()
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]entry{}
	table, comment := "", ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "":
			comment = ""
		case shownHeader.MatchString(line):
			table, comment = shownHeader.FindStringSubmatch(line)[1]+".", ""
		case shownKey.MatchString(line):
			m := shownKey.FindStringSubmatch(line)
			if table == "defaults." {
				continue
			}
			if before, twice := entries[table+m[2]]; twice {
				t.Errorf("%s%s is on line %d and on line %d", table, m[2], before.line, i+1)
			}
			entries[table+m[2]] = entry{i + 1, comment, m[3], m[1] != ""}
			comment = ""
		default:
			comment = strings.TrimSpace(comment + " " + strings.TrimPrefix(line, "# "))
		}
	}
	return entries
}

// decodeValue reads one value in TOML.
func decodeValue(t *testing.T, value string) any {
	t.Helper()
	var m map[string]any
	if _, err := toml.Decode("x = "+value, &m); err != nil {
		t.Fatalf("value %s: %v", value, err)
	}
	return m["x"]
}

func TestShipped_LoadsAsItIs(t *testing.T) {
	c, err := load(shipped, plain())
	if err != nil {
		t.Fatalf("load of %s =\n%v", shipped, err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("Warnings = %q, want none", c.Warnings)
	}
	if len(c.Jobs) != 1 || c.Jobs[0].Name != "nightly-report" {
		t.Errorf("Jobs = %+v, want nightly-report", c.Jobs)
	}
	want := mustLoad(t, "")
	c.Path, c.Files, c.Jobs = want.Path, want.Files, want.Jobs
	if !reflect.DeepEqual(c, want) {
		t.Errorf("it sets\n%+v\nwant the defaults\n%+v", c, want)
	}
}

// TestShipped_EveryKey holds the file against the keys that the code knows, in both directions,
// and against what the code says of each.
func TestShipped_EveryKey(t *testing.T) {
	shown := readShipped(t)
	unbuilt := map[string]bool{}
	for _, name := range later() {
		unbuilt[name] = true
	}
	says := map[kind]string{
		aText: "String", aList: "Array of strings", aDuration: "Duration", aSize: "Size", aPercent: "Percentage", aCount: "Integer",
		someCodes: "Array of integers", aFlag: "True or false", aTable: "Table", aSpec: "String or array of strings",
	}
	check := func(table string, k key) {
		name := table + k.name
		e, ok := shown[name]
		if !ok {
			t.Errorf("%s is not shown", name)
			return
		}
		delete(shown, name)
		if !strings.Contains(e.comment, says[k.kind]) {
			t.Errorf("line %d: the comment of %s says nothing of %q: %s", e.line, name, says[k.kind], e.comment)
		}

		notBuilt := unbuilt[name] || unbuilt[strings.TrimSuffix(table, ".")]
		if said := strings.Contains(e.comment, "Not yet supported."); said != notBuilt || notBuilt && !e.commented {
			t.Errorf("line %d: %s is built: %t; the comment says not: %t; commented out: %t", e.line, name, !notBuilt, said, e.commented)
		}

		v := decodeValue(t, e.value)
		if !k.set(place{src: &source{}, path: []string{k.name}}, v) {
			t.Errorf("line %d: %s refuses the value shown, %s", e.line, name, e.value)
		}
		def := ""
		if m := shownDef.FindStringSubmatch(e.comment); m != nil {
			def = m[1]
		}
		switch {
		case k.def == nil && name == "jobs.schedule":
			if !strings.HasSuffix(e.comment, "Required.") {
				t.Errorf("line %d: the comment of %s does not say that it is required: %s", e.line, name, e.comment)
			}
		case k.def == nil:
			if !strings.HasPrefix(def, "none") {
				t.Errorf("line %d: %s has no default, the comment says %q", e.line, name, def)
			}
		case !reflect.DeepEqual(v, k.def):
			t.Errorf("line %d: %s is shown as %s, the default is %v", e.line, name, e.value, k.def)
		case def != "as shown" && !reflect.DeepEqual(decodeValue(t, def), k.def):
			t.Errorf("line %d: the comment of %s says the default is %s, it is %v", e.line, name, def, k.def)
		case e.commented && !notBuilt:
			t.Errorf("line %d: %s has a default and is built, and is commented out", e.line, name)
		}
		// Tables in one line show their own keys, every one.
		if inner, ok := v.(map[string]any); ok && len(k.keys) > 0 {
			for _, sub := range k.keys {
				if _, ok := inner[sub.name]; !ok {
					t.Errorf("line %d: %s does not show %s", e.line, name, sub.name)
				}
			}
		}
	}
	for _, k := range newLoader(plain()).settings() {
		switch {
		case k.name == "defaults":
		case len(k.keys) > 0:
			for _, sub := range k.keys {
				check(k.name+".", sub)
			}
		default:
			check("", k)
		}
	}
	for name, e := range shown {
		t.Errorf("line %d: %s is shown and is no key", e.line, name)
	}
}
