package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rota/internal/sqltest"
)

// database is one of the dialects with a server of it.
type database struct {
	dialect Dialect
	*sql.DB
	*SQL
}

// TestSQL starts each database once, and passes the same suite on all: whatever a page of a manual says of
// locks and snapshots is seen here.
func TestSQL(t *testing.T) {
	for dialect, start := range map[Dialect]func(testing.TB) *sql.DB{
		PostgreSQL: sqltest.PostgreSQL, MySQL: sqltest.MariaDB, SQLite: sqltest.SQLite,
	} {
		t.Run(string(dialect), func(t *testing.T) {
			s, err := NewSQL(SQLOptions{Dialect: dialect})
			ok(t, "NewSQL", err)
			db := &database{dialect, start(t), s}
			for range 2 { // it is there already the second time
				db.exec(t, s.Schema())
			}
			db.exec(t, "CREATE TABLE sheet (id integer PRIMARY KEY, body varchar(100), fence bigint)")
			t.Run("tokens decide", db.tokensDecide)
			t.Run("keys are told apart by every byte", db.oddKeys)
			t.Run("a refused transaction writes nothing", db.doIsAtomic)
			t.Run("a newer holder that has not committed is waited for, and refuses", db.newerInFlight)
			t.Run("one that rolls back is as if it had not been", db.newerRollsBack)
			t.Run("an older holder that has not committed is waited for, and seen", db.olderInFlight)
			t.Run("the first write of two holders at once", db.firstAtOnce)
			t.Run("a single statement waits and compares anew", db.singleStatement)
			t.Run("what came of a single statement", db.applied)
			t.Run("stricter levels let nothing stale through", db.stricterLevels)
			t.Run("many holders", db.manyHolders)
			t.Run("what is no token is a conflict", db.foreignRows)
			t.Run("what the docs show", db.docs)
		})
	}
}

func (db *database) exec(t testing.TB, query string, args ...any) sql.Result {
	t.Helper()
	res, err := db.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return res
}

// begin begins a transaction that is over with the test.
func (db *database) begin(t testing.TB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	ok(t, "begin", err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (db *database) seen(t testing.TB, key string, want int64) {
	t.Helper()
	if got, err := db.Seen(t.Context(), db.DB, key); err != nil || got != want {
		t.Errorf("Seen(%q): got %d, %v; want %d", key, got, err, want)
	}
}

// sql puts parameters in the dialect's own form, which the tests write as $1.
func (db *database) sql(query string) string {
	if db.dialect == PostgreSQL {
		return query
	}
	for _, p := range []string{"$1", "$2", "$3"} {
		query = strings.ReplaceAll(query, p, "?")
	}
	return query
}

// put makes the row that the tests write to.
func (db *database) put(t testing.TB, id int, body string, token any) {
	t.Helper()
	db.exec(t, db.sql("DELETE FROM sheet WHERE id = $1"), id)
	db.exec(t, db.sql("INSERT INTO sheet (id, body, fence) VALUES ($1, $2, $3)"), id, body, token)
}

func (db *database) body(t testing.TB, q Querier) (body string) {
	t.Helper()
	ok(t, "SELECT", q.QueryRowContext(t.Context(), "SELECT body FROM sheet WHERE id = 1").Scan(&body))
	return body
}

// write is what a guarded transaction does besides.
func (db *database) write(ctx context.Context, tx *sql.Tx, body string) error {
	_, err := tx.ExecContext(ctx, db.sql("UPDATE sheet SET body = $1 WHERE id = 1"), body)
	return err
}

func (db *database) tokensDecide(t *testing.T) {
	guard := func(token int64) error {
		return db.Do(t.Context(), db.DB, "k", token, func(*sql.Tx) error { return nil })
	}
	db.seen(t, "k", 0)
	ok(t, "the first token", guard(5))
	ok(t, "the same again", guard(5))
	refused(t, guard(4), 4, 5)
	db.seen(t, "k", 5)
	ok(t, "a higher one", guard(MaxToken-1))
	refused(t, guard(MaxToken-2), MaxToken-2, MaxToken-1)
	ok(t, "the highest", guard(MaxToken))
	refused(t, guard(MaxToken-1), MaxToken-1, MaxToken)
	db.seen(t, "k", MaxToken)

	tx := db.begin(t, 0)
	for _, tc := range []struct {
		key   string
		token int64
	}{{"", 1}, {"a{b", 1}, {"a\x00b", 1}, {"a\xffb", 1}, {strings.Repeat("x", 10<<10), 1}, {"k", 0}, {"k", -1}, {"k", MaxToken + 1}} {
		if err := db.Guard(t.Context(), tx, tc.key, tc.token); !errors.Is(err, ErrInvalid) {
			t.Errorf("Guard(%.20q, %d): got %v, want ErrInvalid", tc.key, tc.token, err)
		}
		if err := db.Do(t.Context(), nil, tc.key, tc.token, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("Do(%.20q, %d): got %v, want ErrInvalid before anything is asked", tc.key, tc.token, err)
		}
	}
	if _, err := db.Seen(t.Context(), db.DB, "a{b"); !errors.Is(err, ErrInvalid) {
		t.Errorf("Seen(%q): got %v, want ErrInvalid", "a{b", err)
	}
}

// MySQL would by itself take most of these for one another.
func (db *database) oddKeys(t *testing.T) {
	keys := []string{"report", "Report", "REPORT", "report ", " report", "réport", "report\t", "'; DROP TABLE rota_fence --", "日本", strings.Repeat("x", MaxKeyBytes)}
	for i, key := range keys {
		ok(t, fmt.Sprintf("Do(%q)", key), db.Do(t.Context(), db.DB, key, int64(i+1), func(*sql.Tx) error { return nil }))
	}
	for i, key := range keys {
		db.seen(t, key, int64(i+1))
	}
}

func (db *database) doIsAtomic(t *testing.T) {
	db.put(t, 1, "before", nil)
	ok(t, "Do", db.Do(t.Context(), db.DB, "atomic", 5, func(tx *sql.Tx) error { return db.write(t.Context(), tx, "five") }))
	refused(t, db.Do(t.Context(), db.DB, "atomic", 4, func(tx *sql.Tx) error { return db.write(t.Context(), tx, "late") }), 4, 5)
	failure := errors.New("no")
	err := db.Do(t.Context(), db.DB, "atomic", 6, func(tx *sql.Tx) error {
		return errors.Join(db.write(t.Context(), tx, "six"), failure)
	})
	if !errors.Is(err, failure) {
		t.Errorf("Do whose write fails: got %v, want its error", err)
	}
	db.seen(t, "atomic", 5)
	if got := db.body(t, db.DB); got != "five" {
		t.Errorf("the row holds %q, want what the one write under token 5 put there", got)
	}
	func() {
		defer func() { _ = recover() }()
		_ = db.Do(t.Context(), db.DB, "atomic", 7, func(tx *sql.Tx) error { panic(db.write(t.Context(), tx, "seven")) })
	}()
	ok(t, "Do after one that panicked", db.Do(t.Context(), db.DB, "atomic", 6, func(*sql.Tx) error { return nil }))
}

// blocked runs f, which must not return before release has been called and returned.
func (db *database) blocked(t *testing.T, f func() error, release func()) error {
	t.Helper()
	var released atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := f()
		if !released.Load() {
			err = fmt.Errorf("returned before the other transaction was over: %w", errors.Join(err, errNotBlocked))
		}
		done <- err
	}()
	db.awaitWaiting(t)
	released.Store(true)
	release()
	select {
	case err := <-done:
		if errors.Is(err, errNotBlocked) {
			t.Fatal(err)
		}
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it still waits 20 s after the other transaction was over")
		return nil
	}
}

var errNotBlocked = errors.New("did not wait")

// awaitWaiting waits until the database itself says that a session waits for a lock. SQLite cannot be asked:
// there whoever waits tries again, which no moment is too early or too late for.
func (db *database) awaitWaiting(t *testing.T) {
	t.Helper()
	query := map[Dialect]string{
		PostgreSQL: "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
		MySQL:      "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
		SQLite:     "SELECT 1",
	}[db.dialect]
	// InnoDB keeps an answer for as long as it is asked for more often than every 100 ms.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(120 * time.Millisecond) {
		var n int
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("no session waits for a lock within 20 s")
}

// The stale holder's guard comes while the newer one's transaction is under way: it must not compare with
// the token that was committed last.
func (db *database) newerInFlight(t *testing.T) {
	db.put(t, 1, "before", nil)
	ok(t, "Do", db.Do(t.Context(), db.DB, "newer", 3, func(*sql.Tx) error { return nil }))
	newer := db.begin(t, sql.LevelDefault)
	ok(t, "the newer Guard", db.Guard(t.Context(), newer, "newer", 5))
	ok(t, "its write", db.write(t.Context(), newer, "five"))
	err := db.blocked(t, func() error {
		return db.Do(t.Context(), db.DB, "newer", 4, func(tx *sql.Tx) error { return db.write(t.Context(), tx, "late") })
	}, func() { ok(t, "commit", newer.Commit()) })
	refused(t, err, 4, 5)
	if got := db.body(t, db.DB); got != "five" {
		t.Errorf("the row holds %q, want what was written under token 5", got)
	}
}

func (db *database) newerRollsBack(t *testing.T) {
	newer := db.begin(t, sql.LevelDefault)
	ok(t, "the newer Guard", db.Guard(t.Context(), newer, "rolled back", 5))
	err := db.blocked(t, func() error {
		return db.Do(t.Context(), db.DB, "rolled back", 4, func(*sql.Tx) error { return nil })
	}, func() { ok(t, "rollback", newer.Rollback()) })
	ok(t, "the older holder", err)
	db.seen(t, "rolled back", 4)
}

// The newer holder's guard comes while the older one's transaction is under way: it must wait, for what it
// reads after it has to hold what the older one wrote.
func (db *database) olderInFlight(t *testing.T) {
	db.put(t, 1, "before", nil)
	older := db.begin(t, sql.LevelDefault)
	ok(t, "the older Guard", db.Guard(t.Context(), older, "older", 3))
	ok(t, "its write", db.write(t.Context(), older, "three"))
	var read string
	err := db.blocked(t, func() error {
		return db.Do(t.Context(), db.DB, "older", 4, func(tx *sql.Tx) error {
			read = db.body(t, tx)
			return nil
		})
	}, func() { ok(t, "commit", older.Commit()) })
	ok(t, "the newer holder", err)
	if read != "three" {
		t.Errorf("after Guard the newer holder reads %q, want what the older one has written", read)
	}
}

func (db *database) firstAtOnce(t *testing.T) {
	newer := db.begin(t, sql.LevelDefault)
	ok(t, "the newer Guard", db.Guard(t.Context(), newer, "first", 5))
	err := db.blocked(t, func() error {
		return db.Do(t.Context(), db.DB, "first", 4, func(*sql.Tx) error { return nil })
	}, func() { ok(t, "commit", newer.Commit()) })
	refused(t, err, 4, 5)
}

const (
	guardedUpdate = "UPDATE sheet SET body = $1, fence = $2 WHERE id = 1 AND fence <= $3"
	readFence     = "SELECT fence FROM sheet WHERE id = 1"
)

func (db *database) singleStatement(t *testing.T) {
	db.put(t, 1, "before", 3)
	newer := db.begin(t, sql.LevelDefault)
	_, err := newer.ExecContext(t.Context(), db.sql(guardedUpdate), "five", 5, 5)
	ok(t, "the newer UPDATE", err)
	err = db.blocked(t, func() error {
		res, err := db.ExecContext(t.Context(), db.sql(guardedUpdate), "late", 4, 4)
		if err != nil {
			return err
		}
		return db.dialect.Applied(t.Context(), db.DB, res, 4, readFence)
	}, func() { ok(t, "commit", newer.Commit()) })
	refused(t, err, 4, 5)
	if got := db.body(t, db.DB); got != "five" {
		t.Errorf("the row holds %q, want what was written under token 5", got)
	}
}

func (db *database) applied(t *testing.T) {
	apply := func(body string, token int64) error {
		res := db.exec(t, db.sql(guardedUpdate), body, token, token)
		return db.dialect.Applied(t.Context(), db.DB, res, token, readFence)
	}
	db.put(t, 1, "before", 3)
	ok(t, "a higher token", apply("five", 5))
	ok(t, "the same again, word for word", apply("five", 5))
	refused(t, apply("late", 4), 4, 5)

	db.put(t, 1, "before", nil) // NULL <= 4 is not true: the row was made without a token
	if err := apply("x", 4); err == nil || errors.Is(err, ErrStale) || errors.Is(err, ErrConflict) {
		t.Errorf("Applied of a row with NULL: got %v, want an error of its own", err)
	}
	db.exec(t, "DELETE FROM sheet WHERE id = 1")
	if err := apply("x", 4); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("Applied without a row: got %v, want sql.ErrNoRows", err)
	}
	res := db.exec(t, "DELETE FROM sheet WHERE id = 1")
	if err := db.dialect.Applied(t.Context(), db.DB, res, 0, readFence); !errors.Is(err, ErrInvalid) {
		t.Errorf("Applied of token 0: got %v, want ErrInvalid", err)
	}
	if err := Dialect("oracle").Applied(t.Context(), db.DB, res, 4, readFence); !errors.Is(err, ErrInvalid) {
		t.Errorf("Applied of an unknown dialect: got %v, want ErrInvalid", err)
	}
	if err := db.dialect.Applied(t.Context(), db.DB, res, 4, "SELECT 'x'"); !errors.Is(err, ErrConflict) {
		t.Errorf("Applied of a token that is none: got %v, want ErrConflict", err)
	}
}

// Above READ COMMITTED a stale writer may be refused by an error of the database's own, but never goes
// through, also when it had begun, and read, before the newer one.
func (db *database) stricterLevels(t *testing.T) {
	levels := []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	if db.dialect == SQLite {
		levels = []sql.IsolationLevel{sql.LevelDefault} // it has one only
	}
	for _, level := range levels {
		key := level.String()
		ok(t, "Do", db.Do(t.Context(), db.DB, key, 3, func(*sql.Tx) error { return nil }))
		stale := db.begin(t, level)
		if got, err := db.Seen(t.Context(), stale, key); err != nil || got != 3 {
			t.Fatalf("%s: Seen: got %d, %v; want 3", level, got, err)
		}
		// InnoDB has what is read under SERIALIZABLE locked until the reader is over.
		if db.dialect == MySQL && level == sql.LevelSerializable {
			ok(t, "rollback", stale.Rollback())
			stale = db.begin(t, level)
		}
		ok(t, "the newer holder", db.Do(t.Context(), db.DB, key, 5, func(*sql.Tx) error { return nil }))
		err := db.Guard(t.Context(), stale, key, 3) // which is what the transaction may still see
		if err == nil {
			t.Errorf("%s: a stale Guard is let through", level)
		}
		if level == sql.LevelReadCommitted || db.dialect == MySQL {
			refused(t, err, 3, 5)
		}
		_ = stale.Rollback()
	}
}

// Each write puts its token into the row. Who finds a higher one there than his own was let in too late.
func (db *database) manyHolders(t *testing.T) {
	const holders, writes = 8, 40
	db.put(t, 2, "0", 0)
	var wg sync.WaitGroup
	var through, stale atomic.Int64
	for range holders {
		wg.Go(func() {
			for range writes {
				token := rand.Int64N(500) + 1
				err := db.Do(t.Context(), db.DB, "many", token, func(tx *sql.Tx) error {
					var there int64
					if err := tx.QueryRowContext(t.Context(), "SELECT fence FROM sheet WHERE id = 2").Scan(&there); err != nil {
						return err
					}
					if there > token {
						t.Errorf("token %d was let in after %d had written", token, there)
					}
					_, err := tx.ExecContext(t.Context(), db.sql("UPDATE sheet SET fence = $1 WHERE id = 2"), token)
					return err
				})
				switch {
				case err == nil:
					through.Add(1)
				case errors.Is(err, ErrStale):
					stale.Add(1)
				case !strings.Contains(strings.ToLower(err.Error()), "deadlock"):
					t.Errorf("Do: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if through.Load() == 0 || stale.Load() == 0 {
		t.Errorf("%d writes went through and %d were stale, want some of both", through.Load(), stale.Load())
	}
	var there int64
	ok(t, "SELECT", db.QueryRowContext(t.Context(), "SELECT fence FROM sheet WHERE id = 2").Scan(&there))
	db.seen(t, "many", there)
}

// A table that somebody made by hand may hold anything.
func (db *database) foreignRows(t *testing.T) {
	create := "CREATE TABLE by_hand (key text PRIMARY KEY, token bigint)"
	insert := "INSERT INTO by_hand (key, token) VALUES ($1, $2)"
	if db.dialect == MySQL {
		create = "CREATE TABLE by_hand (`key` varbinary(512) PRIMARY KEY, token bigint)"
		insert = "INSERT INTO by_hand (`key`, token) VALUES ($1, $2)"
	}
	db.exec(t, create)
	s, err := NewSQL(SQLOptions{Dialect: db.dialect, Table: "by_hand"})
	ok(t, "NewSQL", err)
	rows := map[string]any{"null": nil, "2^53": int64(MaxToken + 1), "all bits": int64(math.MaxInt64)}
	if db.dialect == SQLite {
		rows["text"] = "abc" // which its integer columns take
	}
	for key, token := range rows {
		db.exec(t, db.sql(insert), key, token)
		if err := s.Do(t.Context(), db.DB, key, 5, func(*sql.Tx) error { return nil }); !errors.Is(err, ErrConflict) {
			t.Errorf("Do where the row holds %v: got %v, want ErrConflict", token, err)
		}
		if _, err := s.Seen(t.Context(), db.DB, key); !errors.Is(err, ErrConflict) {
			t.Errorf("Seen where the row holds %v: got %v, want ErrConflict", token, err)
		}
	}
	db.exec(t, db.sql(insert), "zero", 0)
	ok(t, "Do of a row that was made with 0", s.Do(t.Context(), db.DB, "zero", 5, func(*sql.Tx) error { return nil }))
}

func TestNewSQL_SaysAllThatIsWrong(t *testing.T) {
	for _, table := range []string{"a b", "a;b", "a.b.c", ".a", "1a", "ä", "a\"b", strings.Repeat("x", 64)} {
		if _, err := NewSQL(SQLOptions{Dialect: "oracle", Table: table}); !errors.Is(err, ErrInvalid) || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("NewSQL(oracle, %q): got %v, want two faults", table, err)
		}
	}
	s, err := NewSQL(SQLOptions{Dialect: PostgreSQL, Table: "app.tokens"})
	if err != nil || !strings.Contains(s.Schema(), "EXISTS app.tokens (") {
		t.Errorf("NewSQL(app.tokens): got %v, %v; want a schema with that name", s, err)
	}
}
