// Package drill proves the lock on a Redis of the user's, with real processes: `rota drill`.
//
// One process gives the orders, the workers compete. Each worker takes the lock, is inside for a moment,
// writes to a guarded value, and gives the lock back; as often as it was told. Two things watch that
// know nothing of the lock: a file that only one process can have locked, which tells whether somebody
// else is inside, and the guard, which refuses a write with an old fencing token.
//
//	scenario.go     what is done to the workers, and what must come of it
//	drill.go        one drill, from the first worker to the report
//	crew.go         the worker processes and what they say
//	worker.go       what one worker does
//	floor.go        the file that tells who is inside
//	report.go       the counts and the verdict
//
// All keys of a drill have its random id in their names, and are deleted at its end.
package drill
