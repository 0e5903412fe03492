// Package shadow races for every tick of a table and runs nothing: it shows beforehand who would
// win, by how much, and which locks contend.
//
//	scheduler ──▶ claim, renew, finish ──▶ {NS}~dry.ID:…   the shadow: a namespace beside the fleet's
//	    │ what each host saw
//	    ▼
//	exchange ───▶ a stream in the shadow ──▶ every process: the same ticks, the same winners
//	                                             │
//	                                             ▼
//	                                         live events, a report
//
// A shadow host is the production scheduler over the production ledger. Two things differ: its keys
// are those of a shadow of the namespace, and what it runs is a wait, as long as the job's past runs
// took. All processes that dry-run one namespace at a time share one shadow, whose id is in the key
// {NS}~dry:session; when the last of them has gone the next dry run makes another, so that what one
// left behind never decides a tick of the next. All keys expire within minutes.
//
// Of the fleet's own keys it reads a few and writes none: at its start how long runs took, and what
// is paused, in small pipelines with a pause between them. Beyond its start a shadow host costs Redis
// what a host does; the hosts of one process start one after another.
//
// When Redis is away it says so and goes on, as the daemon does; nothing is claimed meanwhile. It
// does not read its config again.
//
// Goroutines: [Run] owns them all and waits for them. One for each host runs its scheduler. Run's own
// does the exchange, a round trip or two four times a second, and alone touches what came of the
// ticks; it calls Options.Show and Options.Note.
package shadow
