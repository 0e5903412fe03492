// Package daemon runs one host: it makes the client, the ledger and the scheduler out of a
// config, tells systemd how it stands, and turns signals into a drain.
//
// It waits for Redis as long as it takes: a fault of Redis never ends it. It owns the state
// folder, which it locks, so that two daemons never share one, and in which outcomes are kept that
// Redis could not take. The first SIGTERM or SIGINT drains, the second ends every run at once;
// either way [Run] returns when nothing is left.
package daemon
