package ledger

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const keysFile = "../../docs/redis-keys.md"

// What the scripts read and write of records and of runs is read from their text: a new field asks
// for its line in the docs.
func TestDocs_NameEveryField(t *testing.T) {
	text, err := os.ReadFile(keysFile)
	if err != nil {
		t.Fatal(err)
	}
	_, record, ok := strings.Cut(string(text), "\n## The record\n")
	if !ok {
		t.Fatalf("%s has no section about the record", keysFile)
	}
	record, _, _ = strings.Cut(record, "\n## ")
	_, run, ok := strings.Cut(string(text), "`{NS}:run:RUN` | hash |")
	if !ok {
		t.Fatalf("%s has no row for a run", keysFile)
	}
	run, _, _ = strings.Cut(run, "\n")

	lua := map[string]string{}
	scripts, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lua[path] = string(text)
	}
	delete(lua, "beat.lua") // knows hosts, and no jobs
	all := strings.Join(slices.Collect(maps.Values(lua)), "\n")
	fields := func(patterns ...string) []string {
		found := map[string]bool{}
		for _, p := range patterns {
			for _, m := range regexp.MustCompile(p).FindAllStringSubmatch(all, -1) {
				for _, word := range regexp.MustCompile(`[a-z][a-z_]*`).FindAllString(m[1], -1) {
					found[word] = true
				}
			}
		}
		return slices.Sorted(maps.Keys(found))
	}
	ofRecord := fields(`\br\.([a-z_]+)`, `\bset\('([a-z_]+)'`, `\b(run_[a-z]+) = `, `'H(?:SET|DEL|SETNX|INCRBY)', RECORD, '([a-z_]+)'`)
	for _, m := range regexp.MustCompile(`prefix \.\. '([a-z]+)'`).FindAllStringSubmatch(lua["pause.lua"], -1) {
		ofRecord = append(ofRecord, "pause_"+m[1])
	}
	ofRun := fields(`(?:run_key\([a-z_.]+\)|KEYS\[1\]), ('[a-z_]+'(?:, '[a-z_]+')*)`, `note\([a-z_.]+, [A-Za-z_]+, ('[a-z]+')`, `note\(r\.run_id, expire, 'lost', at, ('fail')`,
		`local n = \{ ('job'), job`, `, ('lock'), lock, `, `n\[#n \+ 1\] = ('[a-z]+')`, `HSET', KEYS\[1\], '[a-z]+', ARGV\[4\], ('[a-z_]+')`, `, ('since'), o\.run_since`)
	if len(ofRecord) < 25 || len(ofRun) < 10 {
		t.Fatalf("found %q of a record and %q of a run in the scripts: the test looks at the wrong places", ofRecord, ofRun)
	}
	for _, f := range ofRecord {
		if !strings.Contains(record, "`"+f+"`") {
			t.Errorf("%s does not name the record's field %q", keysFile, f)
		}
	}
	for _, f := range ofRun {
		if !strings.Contains(run, "`"+f+"`") {
			t.Errorf("%s does not name the field %q of a run", keysFile, f)
		}
	}
	for path := range lua {
		if name := strings.TrimSuffix(path, ".lua"); name != "record" && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s does not name the script %s", keysFile, path)
		}
	}
}

// locking.NewScript takes what a script uses of a prelude, definition by definition: whatever stands
// outside of them would be lost.
func TestRecordPrelude_IsAListOfDefinitions(t *testing.T) {
	for i, line := range strings.Split(recordPrelude, "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "--")
		if line != "" && line != "end" && !indented && !strings.HasPrefix(line, "local ") {
			t.Errorf("record.lua:%d: got %q, want a definition, its inside or its end", i+1, line)
		}
		if code, _, ok := strings.Cut(line, "--"); ok && strings.Count(code, "'")%2 == 1 {
			t.Errorf("record.lua:%d: -- stands in a string", i+1)
		}
	}
}
