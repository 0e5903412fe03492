// Package outcomes keeps the outcomes of runs on disk while Redis is away, so that they survive the
// daemon, and the machine: whichever daemon is started next on the same folder delivers them.
//
// One file holds one outcome, as JSON with a version. It is written under another name, synced,
// renamed and the folder synced, so that after a crash it is there whole or not at all. Names begin
// with a number that rises: their order is that in which the outcomes came. Files are readable for
// their owner alone, for what jobs print is in them, and the ownership token of the run's lease.
//
// What is kept is bounded. When there is no room for one more, the outputs of the oldest outcomes go
// first, and how their runs ended stays; then the oldest outcomes. Each is said in the log. What goes
// from the disk does not go from the memory of a daemon that has it there too.
//
// Nothing in the folder keeps a daemon from starting, or from keeping more. What cannot be read is set
// aside under a name that ends in .bad, and said; what a newer version or a daemon of another namespace
// wrote, or what the disk does not give out, is left alone. A disk that is full or cannot be written is
// an error of [Store.Keep], and the scheduler goes on in memory.
//
// The folder must be the caller's alone: the daemon locks the one that it is in. A [Store] is safe for
// concurrent use. It has no goroutines; its calls last as long as the disk takes.
package outcomes
