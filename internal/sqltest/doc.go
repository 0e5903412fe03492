// Package sqltest gives tests the databases that users fence: a PostgreSQL and a MariaDB, real servers
// that the test starts itself, and SQLite in a file.
//
//   - [PostgreSQL] makes a cluster and starts it: a second.
//   - [MariaDB] starts on an empty directory, without grant tables: half a second. It stands for MySQL
//     too, whose SQL it shares as far as it is used here.
//   - [SQLite] is a library.
//
// Each listens on a unix socket in a directory of the test and on no port, runs as nobody if the test is
// root, since neither starts as root, syncs nothing, and ends with the test, or if its process dies. Nothing
// here skips: a machine without a server fails the test and is told what to install.
package sqltest
