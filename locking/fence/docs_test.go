package fence

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const docsFile = "../../docs/fencing.md"

// block is what the page shows at one place: its name stands in a comment before it.
type block struct{ name, language, text string }

// blocks reads the page, so that what is shown is what is run.
func blocks(t testing.TB) (all []block) {
	t.Helper()
	page, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?ms)^(?:<!-- test: (\\S+) -->\n)?```([a-z]*)\n(.*?)^```$")
	for _, m := range shown.FindAllStringSubmatch(string(page), -1) {
		all = append(all, block{m[1], m[2], m[3]})
	}
	return all
}

// shown is the one block of a name.
func shown(t testing.TB, name string) string {
	t.Helper()
	for _, b := range blocks(t) {
		if b.name == name {
			return strings.TrimSuffix(b.text, "\n")
		}
	}
	t.Fatalf("%s shows no %s", docsFile, name)
	return ""
}

// Whatever has a language has a test that runs it, which fails if it does not find it.
func TestDocs_ShowNothingUntested(t *testing.T) {
	tested := []string{"rota/run", "file/write"} // the first by the command's own tests
	for _, d := range []Dialect{PostgreSQL, MySQL, SQLite} {
		for _, part := range []string{"table", "transaction", "column", "statement", "upsert"} {
			tested = append(tested, string(d)+"/"+part)
		}
	}
	tested = append(tested, "postgresql/function", "postgresql/psql")
	for _, b := range blocks(t) {
		switch {
		case b.language == "":
			t.Errorf("%s shows this without saying what it is, and so untested:\n%s", docsFile, b.text)
		case b.name == "go":
			tested = append(tested, "go")
		case !slices.Contains(tested, b.name):
			t.Errorf("%s shows %q, which no test runs:\n%s", docsFile, b.name, b.text)
		}
	}
	if !slices.Contains(tested, "go") {
		t.Errorf("%s shows no Go: the test looks at the wrong places", docsFile)
	}
}

// The page on Redis' keys has the fields and the scripts.
func TestDocs_NameTheKey(t *testing.T) {
	const keysFile = "../../docs/redis-keys.md"
	page, err := os.ReadFile(keysFile)
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(page), "| `{NS}:fence:KEY` | hash |")
	row, _, _ = strings.Cut(row, "\n")
	fields := regexp.MustCompile(`'H(?:MGET|SET)', [a-zA-Z\[\]1]+, '([a-z]+)'(?:, [A-Z\[\]1]+)?, '([a-z]+)'`).FindStringSubmatch(valuePrelude + writeBody)
	if len(fields) != 3 {
		t.Fatalf("found the fields %q in the scripts: the test looks at the wrong places", fields)
	}
	for _, f := range fields[1:] {
		if !strings.Contains(row, "`"+f+"`") {
			t.Errorf("%s does not name the field %q in its row for guarded values: %s", keysFile, f, row)
		}
	}
	for _, script := range []string{"`write`", "`read`"} {
		if !strings.Contains(string(page), script) {
			t.Errorf("%s does not name the script %s", keysFile, script)
		}
	}
}

// The page's Go is that of the examples and tests.
func TestDocs_ShowTheExamples(t *testing.T) {
	var sources strings.Builder
	for _, file := range []string{"example_test.go", "object_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(text)
	}
	for _, b := range blocks(t) {
		if b.language == "go" && !strings.Contains(sources.String(), b.text) {
			t.Errorf("%s shows Go that is in no example:\n%s", docsFile, b.text)
		}
	}
}

// docs runs what the page shows of the dialect.
func (db *database) docs(t *testing.T) {
	name := func(part string) string { return string(db.dialect) + "/" + part }
	if got, want := db.Schema(), shown(t, name("table")); got != want {
		t.Errorf("Schema: got\n%s\nwant what %s shows:\n%s", got, docsFile, want)
	}
	db.exec(t, "CREATE TABLE report (id integer PRIMARY KEY, body varchar(100))")
	db.exec(t, "INSERT INTO report (id, body) VALUES (7, 'before')")
	holds := func(what, want string, id int) {
		t.Helper()
		var got string
		if err := db.QueryRowContext(t.Context(), fmt.Sprintf("SELECT body FROM report WHERE id = %d", id)).Scan(&got); err != nil || got != want {
			t.Errorf("after %s the row holds %q, %v; want %q", what, got, err, want)
		}
	}

	t.Run("the transaction", func(t *testing.T) {
		steps := strings.Split(shown(t, name("transaction")), "\n\n")
		if last := len(steps) - 1; !strings.Contains(steps[1], db.text.guard) || steps[last] != "COMMIT;" {
			t.Fatalf("%s shows another guard, or no commit:\n%q\nwant\n%s", docsFile, steps, db.text.guard)
		}
		for _, tc := range []struct {
			token int64
			body  string
			stale bool
		}{{5, "five", false}, {5, "five again", false}, {4, "late", true}, {6, "six", false}, {5, "late", true}} {
			if got := db.transaction(t, steps, tc.token, tc.body); got != tc.stale {
				t.Errorf("the transaction with token %d: stale %t, want %t", tc.token, got, tc.stale)
			}
		}
		holds("the transactions", "six", 7)
		db.seen(t, "shown", 6)
	})

	db.exec(t, shown(t, name("column")))
	statement := func(query string, args ...any) (changed int64) {
		t.Helper()
		n, err := db.exec(t, query, args...).RowsAffected()
		ok(t, "RowsAffected", err)
		return n
	}
	t.Run("the statement", func(t *testing.T) {
		update := func(token int64, body string) int64 {
			args := []any{body, token, 7}
			if db.dialect == MySQL {
				args = append(args, token)
			}
			return statement(shown(t, name("statement")), args...)
		}
		if n := update(5, "five"); n != 1 {
			t.Errorf("token 5 changed %d rows, want 1", n)
		}
		want := int64(1)
		if db.dialect == MySQL {
			want = 0 // of which the page warns
		}
		if n := update(5, "five"); n != want {
			t.Errorf("token 5 again changed %d rows, want %d", n, want)
		}
		if n := update(4, "late"); n != 0 {
			t.Errorf("token 4 changed %d rows, want 0", n)
		}
		holds("the statements", "five", 7)
	})
	t.Run("the upsert", func(t *testing.T) {
		for _, tc := range []struct {
			token int64
			body  string
		}{{5, "five"}, {4, "late"}, {5, "five again"}, {6, "six"}, {5, "late"}} {
			statement(shown(t, name("upsert")), 8, tc.body, tc.token)
		}
		holds("the upserts", "six", 8)
	})
	if db.dialect == PostgreSQL {
		t.Run("the function", func(t *testing.T) {
			db.exec(t, shown(t, name("function")))
			db.exec(t, "SELECT rota_guard('function', 5)")
			db.exec(t, "SELECT rota_guard('function', 5)")
			_, err := db.ExecContext(t.Context(), "SELECT rota_guard('function', 4)")
			if err == nil || !strings.Contains(err.Error(), "stale fencing token 4 for function") {
				t.Errorf("rota_guard with token 4: got %v, want an error that names it", err)
			}
			db.seen(t, "function", 5)
		})
		t.Run("the script of psql", func(t *testing.T) {
			if code, said := db.psql(t, "8"); code != 0 {
				t.Errorf("with token 8: code %d, it said %q; want success", code, said)
			}
			holds("the script", "done", 7)
			db.exec(t, "UPDATE report SET body = 'since' WHERE id = 7")
			if code, said := db.psql(t, "7"); code != 3 || !strings.Contains(said, "stale fencing token 7 for report") {
				t.Errorf("with token 7: code %d, it said %q; want 3, and why", code, said)
			}
			holds("the stale script", "since", 7)
		})
	}
}

// psql runs the page's script with a token.
func (db *database) psql(t *testing.T, token string) (code int, said string) {
	t.Helper()
	var dir string
	ok(t, "SHOW", db.QueryRowContext(t.Context(), "SHOW unix_socket_directories").Scan(&dir))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", shown(t, "postgresql/psql"))
	cmd.Env = append(os.Environ(), "PGHOST="+dir, "PGUSER=rota", "PGDATABASE=postgres", "ROTA_FENCING_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	if e, failed := errors.AsType[*exec.ExitError](err); failed {
		return e.ExitCode(), string(out)
	}
	ok(t, "psql", err)
	return 0, string(out)
}

// transaction runs the steps of the page over one connection, as they stand there, and does what its
// comments say. It returns whether the token was stale.
func (db *database) transaction(t *testing.T, steps []string, token int64, body string) (stale bool) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	ok(t, "connect", err)
	defer func() { _ = conn.Close() }()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := conn.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	exec(steps[0])
	write := steps[len(steps)-2]
	if db.dialect == MySQL {
		exec(steps[1], "shown", token, token)
		var stored int64
		ok(t, steps[2], conn.QueryRowContext(t.Context(), steps[2], "shown").Scan(&stored))
		stale = stored > token
	} else {
		err := conn.QueryRowContext(t.Context(), steps[1], "shown", token).Scan(new(int64))
		if stale = errors.Is(err, sql.ErrNoRows); !stale {
			ok(t, steps[1], err)
		}
	}
	if stale {
		exec("ROLLBACK")
		return true
	}
	exec(strings.Replace(write, "$3", "$1", 1), body) // numbered through on the page
	exec(steps[len(steps)-1])
	return false
}

// The script of the page, on real files.
func TestDocs_FileRefusesStaleWrites(t *testing.T) {
	dir, script := t.TempDir(), writeScript(t)
	write := func(token, body string) (code int, said string) {
		cmd := exec.CommandContext(t.Context(), script)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, append(os.Environ(), "ROTA_FENCING_TOKEN="+token), strings.NewReader(body)
		out, err := cmd.CombinedOutput()
		if e, failed := errors.AsType[*exec.ExitError](err); failed {
			return e.ExitCode(), string(out)
		}
		ok(t, "the script", err)
		return 0, string(out)
	}
	holds := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	for _, tc := range []struct {
		token, body string
		code        int
	}{
		{"1795968430725800", "first", 0},
		{"1795968430725800", "first again", 0},
		{"1795968430725799", "late", 3},
		{"1795968430725801", "second", 0},
		{"1795968430725800", "late", 3},
		{"999", "late, and by its letters above", 3},
		{"", "no token", 3},
		{"x", "no number", 3},
	} {
		if code, said := write(tc.token, tc.body); code != tc.code || (code == 3) != strings.Contains(said, "stale fencing token") {
			t.Errorf("token %q: code %d, %q; want %d", tc.token, code, said, tc.code)
		}
	}
	holds("report", "second")
	holds("report.token", "1795968430725801\n")

	// A script that was stopped in between has raised the token.
	if err := os.WriteFile(filepath.Join(dir, "report.token"), []byte("not a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _ := write("1795968430725802", "over what nobody understands"); code != 3 {
		t.Errorf("a token file that holds no number: code %d, want 3", code)
	}
	holds("report", "second")
}

// Who has waited for the lock compares with what the one before has left.
func TestDocs_FileComparesUnderTheLock(t *testing.T) {
	dir := t.TempDir()
	script := writeScript(t)
	lock, err := os.Create(filepath.Join(dir, "report.lock"))
	ok(t, "create", err)
	defer func() { _ = lock.Close() }()
	ok(t, "flock", syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	info, err := lock.Stat()
	ok(t, "stat", err)

	stale := exec.CommandContext(t.Context(), script)
	stale.Dir, stale.Env, stale.Stdin = dir, append(os.Environ(), "ROTA_FENCING_TOKEN=6"), strings.NewReader("late")
	ok(t, "start", stale.Start())
	// The arrow marks who waits (proc_locks(5)).
	waits := regexp.MustCompile(fmt.Sprintf(`(?m)-> FLOCK .*:%d `, info.Sys().(*syscall.Stat_t).Ino))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		locks, err := os.ReadFile("/proc/locks")
		ok(t, "read", err)
		if waits.Match(locks) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the script does not wait for the lock")
		}
	}
	ok(t, "write", os.WriteFile(filepath.Join(dir, "report.token"), []byte("7\n"), 0o600))
	ok(t, "unlock", lock.Close())
	if e, failed := errors.AsType[*exec.ExitError](stale.Wait()); !failed || e.ExitCode() != 3 {
		t.Errorf("the stale one ended with %v, want code 3", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "report")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat report: got %v, want that nothing was written", err)
	}
}

// writeScript is the script of the page, as a file.
func writeScript(t *testing.T) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "write")
	if err := os.WriteFile(script, []byte(shown(t, "file/write")), 0o700); err != nil { // it is run
		t.Fatal(err)
	}
	return script
}
