// Package socket is the way from inside a run to its daemon: a unix socket, $ROTA_SOCKET, on which a
// program of the run may have a value fenced without the password of Redis.
//
// # Who is answered
//
// Everybody may connect; who is answered is decided by the process that did (SO_PEERCRED, unix(7)). It has
// to belong to a run that goes on in this daemon, by its parents ([rota/jobs.Warden.RunOf]), and that
// run's lease has to be trusted still. Whoever else connects is told so, and nothing of what he sends is
// read. A process that has ended by the time this is known is nobody's.
//
// # What is answered
//
// One thing: to write or raise a guarded value of the fleet (see [rota/locking/fence]) with the token of
// that very run. A request that names another token is refused. A connection carries one request and one
// reply, each a JSON object on a line of its own:
//
//	{"v":1,"op":"fence","key":"cursor","token":1795968430725800,"value":"MTcwMA=="}
//	{"v":1,"token":1795968430725800,"value":"MTcwMA=="}
//
// A token of 0 is the run's own. A null value raises the token and leaves the value, which the reply has
// either way; both are base64, for they are bytes. A reply with "error" has a code, one of those below, and
// a text, and where the token is stale the highest one seen:
//
//	{"v":1,"error":"stale","text":"…","stored":1795968430725801}
//
// Requests are bounded in size, in number, and in the time that they take: [Server] says how. Fields and
// operations that a daemon does not know are refused, not passed over: it was started before the program
// that asks may have been upgraded.
//
// # Goroutines
//
// A [Server] has one that accepts, and one for each connection, at most [maxConnections]. Close waits for
// all.
package socket
