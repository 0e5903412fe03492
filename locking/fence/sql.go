package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
)

const defaultTable = "rota_fence"

// SQLOptions configure a [SQL].
type SQLOptions struct {
	Dialect Dialect // required

	// Table is the name of the table that holds the tokens, "SCHEMA.TABLE" or "TABLE": letters, digits
	// and underscores. "": "rota_fence".
	Table string
}

// SQL guards what transactions write, by a table with a row for each key, which holds the highest token
// seen. [SQL.Guard] in a transaction of one's own, or [SQL.Do], compares the token and locks the row until
// the transaction ends: whatever else that writes, in whatever tables, is committed with it or not at all,
// and in no other order than that of the tokens.
//
// It needs no driver of its own and no isolation level above READ COMMITTED.
type SQL struct {
	dialect Dialect
	text    *statements
}

var identifier = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// NewSQL checks the options; all faults are in one error, which matches [ErrInvalid].
func NewSQL(opt SQLOptions) (*SQL, error) {
	opt.Table = cmp.Or(opt.Table, defaultTable)
	var faults []error
	text := opt.Dialect.statements(opt.Table)
	if text == nil {
		faults = append(faults, invalid("Dialect: %q is none of %q, %q, %q", opt.Dialect, PostgreSQL, MySQL, SQLite))
	}
	// It is spliced into the statements, where a parameter cannot stand.
	if !identifier.MatchString(opt.Table) {
		faults = append(faults, invalid("Table: %.100q is not TABLE or SCHEMA.TABLE of letters, digits and underscores", opt.Table))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &SQL{dialect: opt.Dialect, text: text}, nil
}

// Schema is the statement that makes the table if it is not there: for a migration, or to be executed
// before the first use.
func (s *SQL) Schema() string { return s.text.schema }

// Guard lets the transaction go on if token is at least the highest that key has seen, which it then is
// once the transaction commits. It waits for transactions that have guarded the same key and are not over.
//
// Call it first. What is read before it may be older than what is written after it, and two transactions
// that take the row after rows of their own may wait for each other.
//
// The error matches [ErrStale] if the token is lower: roll back, and stop. It matches [ErrConflict] if the
// row holds something that is no token, and [ErrInvalid] if key or token cannot be used: before the
// database is asked. Any other is the database's, such as a deadlock or a serialization failure, after
// which the whole transaction may be tried again; [errors.As] finds the driver's own.
func (s *SQL) Guard(ctx context.Context, tx *sql.Tx, key string, token int64) error {
	if err := check(key, token); err != nil {
		return err
	}
	stored, err := s.guard(ctx, tx, key, token)
	switch {
	case err != nil:
		return fmt.Errorf("fence %q: %w", key, err)
	case stored > token:
		return &StaleError{Key: key, Token: token, Stored: stored}
	case stored < token:
		return fmt.Errorf("fence %q: the row holds %d after %d was written: something else writes to the table", key, stored, token)
	}
	return nil
}

// guard raises the token, and returns the highest.
func (s *SQL) guard(ctx context.Context, tx *sql.Tx, key string, token int64) (stored int64, err error) {
	if s.dialect == MySQL {
		if _, err := tx.ExecContext(ctx, s.text.guard, key, token, token); err != nil {
			return 0, err
		}
		return readToken(tx.QueryRowContext(ctx, s.text.locked, key))
	}
	err = tx.QueryRowContext(ctx, s.text.guard, key, token).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return readToken(tx.QueryRowContext(ctx, s.text.locked, key))
	}
	return stored, err
}

// Do runs write in a transaction that begins with [SQL.Guard], and commits it. If write fails its error is
// returned, and nothing was written. The level is the database's default.
//
// The errors are those of Guard, write, and the commit. After one that broke the connection it is not known
// whether the transaction was committed; to repeat Do with the same token is safe if write may run twice.
func (s *SQL) Do(ctx context.Context, db *sql.DB, key string, token int64, write func(*sql.Tx) error) error {
	if err := check(key, token); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence %q: begin: %w", key, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := s.Guard(ctx, tx, key, token); err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence %q: commit: %w", key, err)
	}
	return nil
}

// Querier is a [sql.DB], a [sql.Tx] or a [sql.Conn].
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Seen returns the highest token that key has seen, 0 if none. It locks nothing, and so it is for people
// to look at, not a beginning of a write. The errors are those of [SQL.Guard] without [ErrStale].
func (s *SQL) Seen(ctx context.Context, q Querier, key string) (int64, error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	stored, err := readToken(q.QueryRowContext(ctx, s.text.seen, key))
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("fence %q: %w", key, err)
	}
	return stored, nil
}

// readToken reads one column that is to hold a token.
func readToken(row *sql.Row) (int64, error) {
	var column any
	if err := row.Scan(&column); err != nil {
		return 0, err
	}
	return tokenOf(column, false)
}

// tokenOf reads what a driver makes of a column, an integer or its text. Nullable: a NULL is 0.
func tokenOf(column any, nullable bool) (int64, error) {
	var stored sql.NullInt64
	err := stored.Scan(column)
	if err != nil || !stored.Valid && !nullable || stored.Int64 < 0 || stored.Int64 > MaxToken {
		if text, ok := column.([]byte); ok {
			column = string(text)
		}
		return 0, fmt.Errorf("%w: the token of the row is %.40q", ErrConflict, fmt.Sprint(column))
	}
	return stored.Int64, nil
}
