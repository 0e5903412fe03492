// Package fence is for the stores that holders of leases write to: it refuses the late write of a
// holder that was overtaken and does not know it.
//
// A lease keeps two holders apart as long as clocks run and processes are stopped in time. A write that
// was sent before is beyond that: it may sit in a socket of a frozen machine, and arrive when another
// holder has long gone on. Only the store can tell, by the fencing token, which rises with every grant
// of a lock (see [rota/locking]). So a store remembers the highest token it has seen, and compares and
// writes in one step:
//
//	token below the highest seen    refused, [ErrStale]; nothing is changed
//	token equal to it               goes through: a holder writes more than once, and may repeat a
//	                                write whose answer was lost
//	token above it                  goes through, and is the highest from then on
//
// The idea is that of "sequencers" in Burrows, "The Chubby lock service", 2006, §2.4, under the name
// that Kleppmann, "How to do distributed locking", 2016, gave it.
//
// # What there is
//
// [Redis] guards values that it keeps in Redis itself. [SQL] guards whatever a transaction of
// database/sql writes, by a row of a small table; [Dialect.Applied] is for the other form, one statement
// whose own row has a column for the token. Other stores need no code of this package: docs/fencing.md
// shows the SQL itself, conditional puts of object stores, and plain files.
//
// # What it promises, and what not
//
// Whatever was written under a token is never replaced, nor followed, by a write under a smaller one,
// as long as the store keeps what it has. Two things are the caller's:
//
//   - A key is written under the tokens of one lock. Those of two locks do not compare.
//   - What is read and then written back has to be read after the token was raised: by [Redis.Raise], or
//     in a transaction after [SQL.Guard]. From then on nothing older can come in between.
//
// Writes under one and the same token are in no order but that in which their holder sends them. A
// holder whose write got no answer repeats that write until there is one, before it sends the next.
//
// # When a store is away
//
// Nothing is queued and nothing is repeated here. An error that is none of [ErrStale], [ErrConflict] and
// [ErrInvalid] says that the store did not answer, or refused for reasons of its own; the write may have
// happened. To repeat it is safe.
//
// There are no goroutines and no state besides the stores'. Everything is safe for concurrent use.
package fence
