package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// refuser is a value that cannot be decoded.
type refuser struct{}

func (refuser) UnmarshalTOML(any) error { return errors.New("refused") }

// decodersLine is the line that the decoder gives for the value at path, 0 if it has none. It is
// in the error of a value that refuses to be decoded.
func decodersLine(text string, meta *toml.MetaData, root map[string]toml.Primitive, path []string) int {
	for len(path) > 1 {
		var table map[string]toml.Primitive
		if meta.PrimitiveDecode(root[path[0]], &table) != nil {
			return 0
		}
		root, path = table, path[1:]
	}
	value, ok := root[path[0]]
	if !ok {
		return 0
	}
	pe, ok := errors.AsType[toml.ParseError](meta.PrimitiveDecode(value, refuser{}))
	if !ok || pe.Position.Line == 0 {
		return 0
	}
	return lineAt(text, pe.Position.Start)
}

// agree holds locate against the decoder, for a text that the decoder takes.
func agree(t *testing.T, text string) (keys int) {
	t.Helper()
	var root map[string]toml.Primitive
	meta, err := toml.Decode(text, &root)
	if err != nil {
		return 0
	}
	// Of a key that is there several times, the decoder knows the last place; and of a table, once
	// there is a key in it that is called "", that of the key.
	times := map[string]int{}
	for _, key := range meta.Keys() {
		times[key.String()]++
		if last := len(key) - 1; key[last] == "" {
			times[key[:last].String()] += 2
		}
	}
	spots, broken := locate(text)
	if broken != nil {
		return 0
	}
	for _, key := range meta.Keys() {
		name := key.String()
		want := decodersLine(text, &meta, root, key)
		if want == 0 || times[name] > 1 {
			continue
		}
		keys++
		if got := spots[name]; got.line != want || got.implied {
			t.Errorf("locate(%q): %s is %+v, want it on line %d", text, name, got, want)
		}
	}
	return keys
}

// Every form that keys and values have in TOML 1.0, and what is easily taken for one.
const everyForm = `a = 1 # [not.a.table]
"b" = "]" # x = 1
'c d' = '#'
"e\"\u00e9\\" = "\"\\"
"" = ''
f.g."h.i" = "x = 1"
j = """
[no.table]
no = "key" \
""\" """"
k = '''
[no.table]
no = 'key' \'''''
l = [ 1, [2, "]"], # ]
  "[", 'x',
  { m = 1, n.o = [3] }
]
p = { q = { r = "}" }, "s t" = '{', u = [] }
v = 1979-05-27 07:32:00
w = [1979-05-27 07:32:00, 07:32:00]
x = -1.5e+10

[ y . "z.z" ]
a = true
  [y.b]
  a	=	false

[[aa]]
a = 1
[[aa]]
[aa.b]
c = 2
[dd.ee.ff]
[dd]
g = 1
`

func TestLocate_AgreesWithTheDecoder(t *testing.T) {
	if n := agree(t, everyForm); n < 24 {
		t.Errorf("%d keys of the text were compared, want more", n)
	}
	agree(t, strings.ReplaceAll(everyForm, "\n", "\r\n"))
	for _, pattern := range []string{"testdata/*/*.toml", shipped} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("Glob(%q) = %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, string(text))
		}
	}
}

func TestLocate_TablesAndWhatIsBelowThem(t *testing.T) {
	spots, _ := locate("a.b = 1\n[c.d]\ne = { f = 1 }\n[c]\n[[g]]\n[[g]]\n[g.h]\n")
	for name, want := range map[string]spot{
		"a":     {line: 1, implied: true},
		"a.b":   {line: 1},
		"c":     {line: 4, header: true},
		"c.d":   {line: 2, header: true},
		"c.d.e": {line: 3}, "c.d.e.f": {line: 3},
		"g": {line: 5, header: true}, "g.h": {line: 7, header: true},
	} {
		if got := spots[name]; got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	src := &source{spots: spots}
	for path, want := range map[string]int{"a": 1, "a.x": 1, "c.d.e.f": 3, "c.x.y": 4, "x": 0, "": 0} {
		keys := slices.DeleteFunc(strings.Split(path, "."), func(s string) bool { return s == "" })
		if got := src.line(keys); got != want {
			t.Errorf("line(%q) = %d, want %d", keys, got, want)
		}
	}
}

// The decoder would fill the stack, which ends the process, or take minutes.
func TestLoad_ShapesThatTheDecoderCannotTake(t *testing.T) {
	const half = maxFileBytes/2 - 100
	fine := "\n[jobs.a]\nschedule = \"@daily\"\nshell = \"true\"\n"
	for name, tc := range map[string]struct{ text, want string }{
		"arrays without end":   {"a = " + strings.Repeat("[", half), "rota.toml:1: brackets stand more than 1000 deep"},
		"arrays with ends":     {"a = " + strings.Repeat("[", half) + strings.Repeat("]", half), "rota.toml:1: brackets stand more than 1000 deep"},
		"inline tables":        {"a = " + strings.Repeat("{a=", half/3), "rota.toml:1: a key has more than 16 parts"},
		"tables in arrays":     {"a = " + strings.Repeat("[{a=", half/4), "rota.toml:1: a key has more than 16 parts"},
		"dotted key":           {strings.Repeat("a.", half) + "a = 1", "rota.toml:1: a key has more than 16 parts"},
		"dotted header":        {"[" + strings.Repeat("a.", half) + "a]", "rota.toml:1: a key has more than 16 parts"},
		"long key":             {"[host]\n" + strings.Repeat("a", half) + " = 1", "rota.toml:2: a key has more than 1024 bytes"},
		"in what was a string": {"a = \"\"\"\\q\nb = " + strings.Repeat("[", half) + "\n\"\"\"\n", "rota.toml:1: a: a string holds an escape that there is none of"},
	} {
		t.Run(name, func(t *testing.T) {
			got := faultsOf(t, write(t, map[string]string{"rota.toml": tc.text}), plain())
			if !strings.HasPrefix(got[0], tc.want) || len(got) > 2 {
				t.Errorf("load = %.300q, want %s", got, tc.want)
			}
		})
	}
	// It is a fault like others: what else is wrong is said too.
	got := faultsOf(t, write(t, map[string]string{"rota.toml": "a = " + strings.Repeat("[", 2000) + fine + "timeout = 5\n"}), plain())
	if want := `rota.toml:5: jobs.a.timeout: 5 has no unit; write "5s"`; len(got) != 2 || got[1] != want {
		t.Errorf("load = %.300q, want the brackets and %s", got, want)
	}
	nested := fmt.Sprintf("a = %s1%s\n", strings.Repeat("[", 900), strings.Repeat("]", 900))
	if got := faultsOf(t, write(t, map[string]string{"rota.toml": nested}), plain()); got[0] != "rota.toml:1: a: unknown key" {
		t.Errorf("load of 900 brackets = %q, want them read", got)
	}
}

func FuzzLocate(f *testing.F) {
	f.Add(everyForm)
	for _, text := range []string{"a = '''\n''''' ", "[a]]\n", "a = [{b=1},{b=2}]", "a = \"\\\n\"", "\"\"\"a\"\"\" = 1", "a=[\n#]\n]\nb=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, _, pr := checkEncoding([]byte(text))
		if pr.text != "" {
			return
		}
		spots, _ := locate(s)
		lines := strings.Count(s, "\n") + 1
		for name, at := range spots {
			if at.line < 1 || at.line > lines {
				t.Errorf("locate(%q): %s is on line %d of %d", s, name, at.line, lines)
			}
		}
		agree(t, s)
	})
}
