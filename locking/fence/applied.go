package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Applied says what came of a single guarded statement, one that compares the token in its own row and
// writes it along:
//
//	UPDATE report SET body = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// Res is what the statement returned, token the one that it wrote. Seen reads the token of the same row, as
// "SELECT fence FROM report WHERE id = $1", with its arguments; it is asked only if no row was changed.
//
// The error is nil if the statement has written. It matches [ErrStale] if the row has seen a higher token,
// [sql.ErrNoRows] if there is no such row, and [ErrConflict] if what it holds is no token; a NULL counts as
// none seen. If the row has seen no higher token, and yet nothing was changed, another condition of the
// statement kept it from that, or the row came meanwhile: that is an error that matches none of these.
//
// MySQL counts the rows that a statement has changed, so one that writes what is there already has none, as
// when it is repeated; Applied knows that. Its driver's clientFoundRows=true has it count what was found.
func (d Dialect) Applied(ctx context.Context, q Querier, res sql.Result, token int64, seen string, args ...any) error {
	if err := CheckToken(token); err != nil {
		return err
	}
	if d.statements(defaultTable) == nil {
		return invalid("Dialect: %q is none of %q, %q, %q", d, PostgreSQL, MySQL, SQLite)
	}
	changed, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: rows affected: %w", err)
	}
	if changed > 0 {
		return nil
	}
	var column any
	switch err := q.QueryRowContext(ctx, seen, args...).Scan(&column); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fence: no such row: %w", err)
	case err != nil:
		return fmt.Errorf("fence: read the row's token: %w", err)
	}
	stored, err := tokenOf(column, true)
	switch {
	case err != nil:
		return fmt.Errorf("fence: %w", err)
	case stored > token:
		return &StaleError{Token: token, Stored: stored}
	case stored == token && d == MySQL:
		return nil
	}
	return fmt.Errorf("fence: no row was changed, though it has seen %d and not above %d: another condition, or another writer", stored, token)
}
