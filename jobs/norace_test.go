//go:build !race

package jobs

// memoryGrowth is what a process may grow by whose work leaves nothing behind.
const memoryGrowth = 4 << 20
