// Package tick measures what a tick costs: claiming and finishing it, a thousand that are due at
// one instant, and finding out which ticks there are. It has benchmarks only.
//
//	BenchmarkClaimFinish   the two round trips of a run, against two PINGs on the same connection
//	BenchmarkDue           a scheduler with 1,000 ticks due at once, against 1,000 bare EVALSHA
//	BenchmarkPlan          10 million ticks of 1,000 jobs
package tick
