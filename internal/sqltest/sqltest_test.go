package sqltest

import (
	"database/sql"
	"strings"
	"testing"
)

// Each answers, with the version that was tested on, and is gone after its test.
func TestServers(t *testing.T) {
	for name, tc := range map[string]struct {
		start   func(testing.TB) *sql.DB
		version string
	}{
		"PostgreSQL": {PostgreSQL, "SELECT version()"},
		"MariaDB":    {MariaDB, "SELECT version()"},
		"SQLite":     {SQLite, "SELECT 'SQLite ' || sqlite_version()"},
	} {
		t.Run(name, func(t *testing.T) {
			var version string
			if err := tc.start(t).QueryRowContext(t.Context(), tc.version).Scan(&version); err != nil || !strings.Contains(version, name) {
				t.Errorf("%s: got %q, %v; want its version", tc.version, version, err)
			}
		})
	}
}
