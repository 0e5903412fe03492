// Package preview replays a cron table offline: no Redis, no real time. The production planner yields
// the ticks, the production order says which host comes first for each, and a model of the claim script
// decides what becomes of it, under the same policies. Durations of runs, latencies and errors of clocks
// are drawn from a seed, so that two replays of one table are the same.
//
// It does not model faults: no host dies, no reply is lost, Redis is always there. What is different in a
// real fleet is how long runs take.
package preview
