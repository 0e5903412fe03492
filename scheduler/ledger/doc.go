// Package ledger keeps, in Redis, what was decided of every tick and how every run ended.
//
// A lock that is held only while a job runs is not once per tick: a host whose claim comes
// after a short job has ended finds the lock free and runs it again. So each job has a lease
// (who runs now; it expires) and a record (what was decided of its ticks; it outlives every
// run), and one script decides on both at once:
//
//	           claim                      renew…                finish
//	host ─────────────────▶ won, token ─────────────▶ … ─────────────────▶ outcome
//	           │                                         abandon: never started
//	           └─▶ held · already · early · late · behind · paused · drained · future
//
// A record has three independent parts. The cursor is the newest tick decided, and only moves
// forward. The run is the newest run there was; only a win and what ends it write it. Waiting
// is the one tick that is queued for the lock. The scripts are claim.lua, renew.lua,
// finish.lua and abandon.lua; each is one round trip, and each may be sent again after a lost
// reply without changing what it did. docs/redis-keys.md lists the keys.
//
// Promised: a tick is won at most once (and once more, under a higher token, where the caller
// asks for reruns); what nobody ran has an entry with its reason; tokens of one lock rise.
// Not promised: any of it, when Redis itself forgets; see docs/guarantees.md.
//
// Nobody may trust what somebody else has put under one of these names: a key of another type,
// or a lock with a value that is no lease, is an error that names the key and matches
// [locking.ErrConflict]; nothing is overwritten. A record of a newer format is an error too.
// A server that is out of memory refuses claims, whole; leases are renewed and given back.
//
// All times in the ledger are by Redis' clock, to the millisecond, except those a host reports
// of its own run, which it corrects by its measured offset. A [Ledger] has no goroutines and
// is safe for concurrent use. When Redis is away every method returns an error by the end of
// its context, and none keeps anything for later: the scheduler does.
package ledger
