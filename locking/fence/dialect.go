package fence

import (
	"fmt"
	"strings"
)

// Dialect is the SQL of a database. What a [SQL] says to it stands in docs/fencing.md, to be used without
// Go as well.
type Dialect string

// The dialects.
const (
	PostgreSQL Dialect = "postgresql" // 9.5 or newer
	MySQL      Dialect = "mysql"      // with InnoDB; MariaDB too
	SQLite     Dialect = "sqlite"     // 3.35 or newer
)

// statements are the SQL of a dialect for one table.
type statements struct {
	schema string
	// guard inserts the row or finds it, takes its lock until the transaction ends, and only then
	// compares: with what the one who had the lock before has committed, not with what the transaction
	// saw when it began.
	guard string
	// locked reads the row that guard has locked, seen any row at any time.
	locked, seen string
}

// statements fills in the name of the table; nil if there is no such dialect.
//
// PostgreSQL: under READ COMMITTED, ON CONFLICT DO UPDATE acts on the newest row, also on one that the
// command's own snapshot does not show (its manual, §13.2.1). In the stricter levels that is an error, to
// be tried again. It locks the row also where WHERE then says no (INSERT, "ON CONFLICT").
//
// InnoDB: INSERT takes an exclusive lock, and reads FOR UPDATE see the newest row in every level (MySQL's
// manual, "Locking Reads"). It has no RETURNING, and counts changed rows, in which one that is written as it
// was has no part. So the comparison is GREATEST, and what came of it is read. VARBINARY: text is compared
// there without case and without blanks at the end.
//
// SQLite: whoever writes is alone until the transaction ends ("Isolation in SQLite").
func (d Dialect) statements(table string) *statements {
	var s statements
	switch d {
	case PostgreSQL:
		s = statements{
			schema: `CREATE TABLE IF NOT EXISTS {table} (
  key   text   PRIMARY KEY,
  token bigint NOT NULL CHECK (token BETWEEN 1 AND {max})
)`,
			guard: `INSERT INTO {table} AS f (key, token) VALUES ($1, $2)
ON CONFLICT (key) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token
RETURNING token`,
			locked: "SELECT token FROM {table} WHERE key = $1",
		}
		s.seen = s.locked
	case MySQL:
		s = statements{
			schema: "CREATE TABLE IF NOT EXISTS {table} (\n" +
				"  `key` varbinary(512) PRIMARY KEY,\n" +
				"  token bigint NOT NULL CHECK (token BETWEEN 1 AND {max})\n" +
				") ENGINE = InnoDB",
			guard: "INSERT INTO {table} (`key`, token) VALUES (?, ?)\n" +
				"ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)",
			seen: "SELECT token FROM {table} WHERE `key` = ?",
		}
		s.locked = s.seen + " FOR UPDATE"
	case SQLite:
		s = statements{
			schema: `CREATE TABLE IF NOT EXISTS {table} (
  key   text    PRIMARY KEY,
  token integer NOT NULL CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND {max})
)`,
			guard: `INSERT INTO {table} AS f (key, token) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token
RETURNING token`,
			locked: "SELECT token FROM {table} WHERE key = ?",
		}
		s.seen = s.locked
	default:
		return nil
	}
	fill := strings.NewReplacer("{table}", table, "{max}", fmt.Sprint(MaxToken))
	for _, text := range []*string{&s.schema, &s.guard, &s.locked, &s.seen} {
		*text = fill.Replace(*text)
	}
	return &s
}
