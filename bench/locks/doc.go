// Package locks measures the lock library beside others that Go programs use with Redis: redislock,
// redsync and rueidislock, on the same server and in the same run. It has benchmarks only.
//
//	BenchmarkAcquireRelease   a lock that nobody else wants, against two bare EVALSHA of the same scripts
//	BenchmarkHandOver         from a release until the one who waits has the lock
package locks
