package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"       // "mysql"
	_ "github.com/jackc/pgx/v5/stdlib"       // "pgx"
	_ "github.com/ncruces/go-sqlite3/driver" // "sqlite3"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second

	nobody = 65534 // the user and group without rights, by custom on every Linux (user-namespaces(7))

	// longestSocket is what fits into sun_path with its NUL (unix(7)).
	longestSocket = 107
)

// PostgreSQL starts a server and returns a database of it, empty but for what PostgreSQL brings.
func PostgreSQL(t testing.TB) *sql.DB {
	t.Helper()
	dir := home(t)
	initdb := program(t, "initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb")
	cluster := filepath.Join(dir, "data")
	cmd := exec.CommandContext(t.Context(), initdb, "--pgdata", cluster, "--username", "rota", "--auth", "trust",
		"--no-locale", "--encoding", "UTF8", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, unprivileged()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sqltest: initdb: %v\n%s", err, out)
	}
	// SIGINT is its fast shutdown: it ends sessions instead of waiting for them (postgres(1)).
	start(t, dir, syscall.SIGINT, filepath.Join(filepath.Dir(initdb), "postgres"),
		"-D", cluster, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=50")
	return open(t, dir, "pgx", "user=rota dbname=postgres host="+dir)
}

// MariaDB starts a server and returns an empty database of it.
func MariaDB(t testing.TB) *sql.DB {
	t.Helper()
	dir := home(t)
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
	own(t, data)
	start(t, dir, syscall.SIGTERM, program(t, "mariadbd", "mariadb-server-core", "/usr/sbin/mariadbd"),
		"--no-defaults", "--datadir="+data, "--socket="+socket, "--pid-file="+filepath.Join(dir, "pid"), "--tmpdir="+dir,
		"--skip-networking", "--skip-grant-tables", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M",
		"--innodb-flush-log-at-trx-commit=0")
	setup := open(t, dir, "mysql", "root@unix("+socket+")/")
	if _, err := setup.ExecContext(t.Context(), "CREATE DATABASE rota"); err != nil {
		t.Fatalf("sqltest: %v\n%s", err, said(dir))
	}
	return open(t, dir, "mysql", "root@unix("+socket+")/rota")
}

// SQLite returns an empty database in a file. Who finds it locked waits. Transactions begin as SQLite
// itself has them begin: they take the lock with their first write.
func SQLite(t testing.TB) *sql.DB {
	t.Helper()
	dir := t.TempDir()
	return open(t, dir, "sqlite3", "file:"+filepath.Join(dir, "db")+"?_txlock=deferred&_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)")
}

// home is a directory of the test that the server's user can use.
func home(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "s")
	if n := len(filepath.Join(dir, ".s.PGSQL.5432")); n > longestSocket {
		t.Fatalf("sqltest: the path of a socket in %s has %d bytes, at most %d are possible: set TMPDIR to a shorter one", dir, n, longestSocket)
	}
	own(t, dir)
	if os.Getuid() == 0 {
		passable(t, dir)
	}
	return dir
}

// passable lets others pass through what is above dir and the test's alone: the two directories of
// testing.TB.TempDir, the upper of which is closed.
func passable(t testing.TB, dir string) {
	t.Helper()
	up := filepath.Dir(dir)
	for _, up := range []string{up, filepath.Dir(up)} {
		info, err := os.Stat(up)
		if err == nil {
			err = os.Chmod(up, info.Mode()|0o011)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// own makes a directory of the server's user.
func own(t testing.TB, dir string) {
	t.Helper()
	err := os.Mkdir(dir, 0o700)
	if err == nil && os.Getuid() == 0 {
		err = os.Chown(dir, nobody, nobody)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// program finds a server's program: in PATH, or where Debian has it. Of several versions, the last.
func program(t testing.TB, name, debian, pattern string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return path
		}
	}
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("sqltest: %s is not installed; run: apt-get install --no-install-recommends %s", name, debian)
	}
	return slices.Max(found)
}

// unprivileged has a process run as nobody if this one is root, and end with it.
func unprivileged() *syscall.SysProcAttr {
	attr := childAttr()
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return attr
}

// start starts a server that ends with the test, by the signal.
func start(t testing.TB, dir string, stop syscall.Signal, path string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, unprivileged()
	if err := cmd.Start(); err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(stop)
		select {
		case <-exited:
		case <-time.After(stopTimeout):
			t.Errorf("sqltest: %s did not end on %s within %s\n%s", filepath.Base(path), stop, stopTimeout, said(dir))
			_ = cmd.Process.Kill()
			<-exited
		}
	})
}

// open connects to a server, as soon as it answers.
func open(t testing.TB, dir, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatalf("sqltest: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return db
		}
		select {
		case <-ctx.Done():
			t.Fatalf("sqltest: no answer within %s: %v\n%s", startTimeout, errors.Join(err, ctx.Err()), said(dir))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// said is the server's log.
func said(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	return fmt.Sprintf("it said: %s%v", text, err)
}
