//go:build race

package jobs

// memoryGrowth is what a process may grow by whose work leaves nothing behind. The detector keeps
// shadow memory, which settles slowly.
const memoryGrowth = 32 << 20
