// Package redistest gives tests a Redis, and faults in front of it. Three tiers, by what a
// test wants to know:
//
//   - [InBubble]: an in-process Redis in a testing/synctest bubble, for everything that has
//     to do with time. An hour passes in milliseconds and to the microsecond. It is not
//     Redis: it keeps all digits of large Lua numbers, accepts absurd TTLs, has no memory
//     limit and no replication.
//   - [Server]: a real redis-server on a free port, to be stopped, frozen, killed and started
//     again, for everything in which the in-process one might be too kind. [Replica], [Sentinel],
//     [Cluster] and [TLSServer] make of such servers what people run in earnest.
//   - [Proxy] and [PipeProxy]: a proxy in front of either that understands the protocol, so
//     that a test can lose exactly the reply to the second renewal.
//
// Nothing here skips: a machine without redis-server fails the test and is told what to
// install. All that a test starts ends with it.
package redistest
