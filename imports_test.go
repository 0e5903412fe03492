package rota_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A layer says what one package, or with /... every package below it, may import. The first layer
// that fits a package is the one that holds.
type layer struct {
	dir  string
	ours []string // packages of this module
	libs []string // modules of others; [anyLibrary] leaves it to reserved
}

const (
	module     = "rota"
	anyLibrary = "*"

	goRedis = "github.com/redis/go-redis/v9"
	xSys    = "golang.org/x/sys"
)

// layers is the import picture of the design. What the public packages may import of others is
// spelled out: whoever uses locking as a library gets no more than that into a binary.
func layers() []layer {
	public := []string{"jobs", "locking", "locking/fence", "scheduler", "scheduler/schedule", "scheduler/ledger"}
	return []layer{
		{dir: "locking", libs: []string{goRedis, xSys}},
		{dir: "locking/fence", ours: []string{"locking"}, libs: []string{goRedis}},
		{dir: "jobs", libs: []string{xSys}},
		{dir: "scheduler/schedule", libs: []string{"github.com/robfig/cron/v3"}},
		{dir: "scheduler/ledger", ours: []string{"locking"}, libs: []string{goRedis}},
		{
			dir:  "scheduler",
			ours: []string{"jobs", "locking", "scheduler/schedule", "scheduler/ledger"},
			libs: []string{goRedis, xSys, "github.com/cespare/xxhash/v2", "github.com/oklog/ulid/v2"},
		},
		// Imported by the tests of every package: whatever it imported of ours would be a cycle.
		{dir: "internal/redistest", libs: []string{anyLibrary}},
		{dir: "internal/sqltest", libs: []string{anyLibrary}},
		{dir: "internal/config", ours: public, libs: []string{anyLibrary}},
		// Offline: it can reach no Redis, and starts nothing.
		{
			dir:  "internal/preview",
			ours: []string{"jobs", "scheduler", "scheduler/schedule", "scheduler/ledger"},
			libs: []string{"github.com/cespare/xxhash/v2"},
		},
		{dir: "internal/...", ours: append([]string{"internal/..."}, public...), libs: []string{anyLibrary}},
		{dir: "cmd/rota", ours: []string{"internal/cli"}},
		{dir: "test/...", ours: append([]string{"internal/..."}, public...), libs: []string{anyLibrary}},
		{dir: "."},
	}
}

// A reserved package is imported in the named places only, and, if tests is set, in tests.
type reserved struct {
	path  string // an import path or the beginning of one
	dirs  []string
	tests bool
	why   string
}

func reservations() []reserved {
	return []reserved{
		{path: "github.com/robfig/cron", dirs: []string{"scheduler/schedule"}, why: "only schedule parses schedules"},
		{path: "github.com/BurntSushi/toml", dirs: []string{"internal/config"}, why: "only config knows TOML"},
		{
			path: "github.com/alicebob/miniredis", dirs: []string{"internal/redistest", "internal/connect"},
			tests: true, why: "an embedded Redis is for tests and for trying",
		},
		{path: "github.com/spf13/cobra", dirs: []string{"internal/cli"}, why: "only cli knows the command line"},
		{path: "github.com/anishathalye/porcupine", tests: true, why: "it checks histories in tests"},
		{path: "github.com/jackc/pgx", tests: true, why: "users bring their own driver"},
		{path: "github.com/go-sql-driver/mysql", tests: true, why: "users bring their own driver"},
		{path: "github.com/ncruces/go-sqlite3", tests: true, why: "users bring their own driver"},
		{path: "github.com/rogpeppe/go-internal", tests: true, why: "it runs scripts in tests"},
		{path: "testing", tests: true, why: "it is no part of a binary"},
		{path: module + "/internal/redistest", tests: true, why: "it is for tests only"},
		{path: module + "/internal/sqltest", tests: true, why: "it is for tests only"},
		{path: module + "/internal/cli", dirs: []string{"cmd/rota"}, tests: true, why: "nothing but the command stands above it"},
		{path: "C", why: "rota is one static binary"},
	}
}

// importFaults says what is wrong with the imports of one file.
func importFaults(s source) []string {
	var faults []string
	add := func(imp, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s imports %q: ", s.path, imp)+fmt.Sprintf(format, args...))
	}
	at := slices.IndexFunc(layers(), func(l layer) bool { return matches(s.dir(), l.dir) })
	if at < 0 {
		return []string{fmt.Sprintf("%s: no layer of imports_test.go holds package %q; say there what it may import", s.path, s.dir())}
	}
	home := layers()[at]
	for _, imp := range s.imports() {
		for _, r := range reservations() {
			if within(imp, r.path) && !slices.Contains(r.dirs, s.dir()) && (!r.tests || !s.forTests()) {
				add(imp, "%s", r.why)
			}
		}
		switch own, isOurs := strings.CutPrefix(imp, module+"/"); {
		case isOurs:
			if !mayImport(home, s, own) {
				add(imp, "%q may import of ours only %q", s.dir(), home.ours)
			}
		case !strings.Contains(strings.Split(imp, "/")[0], "."):
			// The standard library: its paths have no dot in the first element (go help importpath).
		case s.forTests() || slices.Contains(home.libs, anyLibrary):
		case !slices.ContainsFunc(home.libs, func(lib string) bool { return within(imp, lib) }):
			add(imp, "%q may import of others only %q", s.dir(), home.libs)
		}
	}
	return faults
}

// mayImport tells whether the file may import the package own of this module. A test may besides
// import its own package, what lies below it, and the servers for tests.
func mayImport(home layer, s source, own string) bool {
	if slices.ContainsFunc(home.ours, func(pattern string) bool { return matches(own, pattern) }) {
		return true
	}
	return s.forTests() && (within(own, s.dir()) || own == "internal/redistest" || own == "internal/sqltest")
}

// matches tells whether dir is the pattern, or below it when the pattern ends in /... .
func matches(dir, pattern string) bool {
	if root, below := strings.CutSuffix(pattern, "/..."); below {
		return within(dir, root)
	}
	return dir == pattern
}

func TestImports_FollowTheDesign(t *testing.T) {
	for _, s := range tree(t) {
		for _, fault := range importFaults(s) {
			t.Error(fault)
		}
	}
}

func TestImports_ViolationsAreFound(t *testing.T) {
	for _, tc := range []struct {
		name, path, imp string
		want            string // a part of the fault; "" if there is none
	}{
		{"locking does not know jobs", "locking/lease.go", "rota/jobs", "may import of ours only []"},
		{"jobs does not know locks", "jobs/command.go", "rota/locking", "may import of ours only []"},
		{"schedule does not know the scheduler", "scheduler/schedule/walk.go", "rota/scheduler", "may import of ours only []"},
		{"the ledger does not know jobs", "scheduler/ledger/claim.go", "rota/jobs", `may import of ours only ["locking"]`},
		{"the scheduler does not know the config", "scheduler/loop.go", "rota/internal/config", "may import of ours only"},
		{"a public package does not know internal ones", "locking/fence/sql.go", "rota/internal/daemon", "may import of ours only"},
		{"fence knows locks, not what runs under them", "locking/fence/redis.go", "rota/jobs", `may import of ours only ["locking"]`},
		{"locking does not know its fences", "locking/lease.go", "rota/locking/fence", "may import of ours only []"},
		{"fence brings in no driver", "locking/fence/sql.go", "github.com/jackc/pgx/v5/stdlib", "their own driver"},
		{"nor does the daemon", "internal/daemon/socket.go", "github.com/ncruces/go-sqlite3", "their own driver"},
		{"sqltest is for tests", "internal/socket/server.go", "rota/internal/sqltest", "for tests only"},
		{"sqltest knows nothing of ours", "internal/sqltest/server.go", "rota/locking/fence", "may import of ours only []"},
		{"config does not know the daemon", "internal/config/load.go", "rota/internal/daemon", "may import of ours only"},
		{"redistest knows nothing of ours", "internal/redistest/server.go", "rota/locking", "may import of ours only []"},
		{"a test is held to the layers too", "locking/lease_test.go", "rota/scheduler", "may import of ours only []"},
		{"preview is offline", "internal/preview/replay.go", "github.com/redis/go-redis/v9", "of others only"},
		{"preview knows no config", "internal/preview/options.go", "rota/internal/config", "may import of ours only"},
		{"redistest is for tests", "scheduler/loop.go", "rota/internal/redistest", "for tests only"},
		{"nothing imports the command line", "internal/daemon/daemon.go", "rota/internal/cli", "nothing but the command"},
		{"the command holds nothing", "cmd/rota/main.go", "rota/internal/daemon", `only ["internal/cli"]`},
		{"the cron parser stays in schedule", "scheduler/loop.go", "github.com/robfig/cron/v3", "only schedule parses"},
		{"the cron parser stays out of other tests", "scheduler/loop_test.go", "github.com/robfig/cron/v3", "only schedule parses"},
		{"TOML stays in config", "internal/cli/check.go", "github.com/BurntSushi/toml", "only config knows TOML"},
		{"the embedded Redis stays out of the ledger", "scheduler/ledger/claim.go", "github.com/alicebob/miniredis/v2", "for trying"},
		{"the embedded Redis stays out of status", "internal/status/http.go", "github.com/alicebob/miniredis/v2/server", "for trying"},
		{"testing stays out of binaries", "jobs/func.go", "testing", "no part of a binary"},
		{"no cgo", "jobs/spawn.go", "C", "static binary"},
		{"locking brings in no other library", "locking/lease.go", "github.com/prometheus/client_golang/prometheus", "of others only"},
		{"a package without a layer", "util/strings.go", "strings", "no layer"},
		{"a new public package without a layer", "metrics/metrics.go", "sync", "no layer"},

		{"ledger over locking", "scheduler/ledger/claim.go", "rota/locking", ""},
		{"scheduler over jobs", "scheduler/loop.go", "rota/jobs", ""},
		{"locking over go-redis", "locking/lease.go", "github.com/redis/go-redis/v9/maintnotifications", ""},
		{"internal over anything", "internal/daemon/daemon.go", "rota/internal/config", ""},
		{"a test over redistest", "locking/lease_test.go", "rota/internal/redistest", ""},
		{"fence over locking", "locking/fence/redis.go", "rota/locking", ""},
		{"a test over a driver", "locking/fence/example_test.go", "github.com/ncruces/go-sqlite3/driver", ""},
		{"a test over sqltest", "locking/fence/sql_test.go", "rota/internal/sqltest", ""},
		{"a test over its own package", "locking/lease_test.go", "rota/locking", ""},
		{"a test over miniredis", "jobs/command_test.go", "github.com/alicebob/miniredis/v2", ""},
		{"miniredis for trying", "internal/connect/embedded.go", "github.com/alicebob/miniredis/v2", ""},
		{"a helper of tests", "internal/redistest/server.go", "testing", ""},
		{"a test fleet", "test/fleet/fleet.go", "rota/locking", ""},
		{"the command", "cmd/rota/main.go", "rota/internal/cli", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := newSource(tc.path, fmt.Sprintf("package p\n\nimport _ %q\n", tc.imp))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(importFaults(s), "\n")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("importFaults(%s importing %q) = %q, want %q in it", tc.path, tc.imp, got, tc.want)
			}
		})
	}
}
