// Package fleet holds tests of whole fleets: the rota binary in real processes, on a real
// redis-server, under faults. What such a test sees comes from two witnesses that know nothing
// of each other: the ledger, and what the jobs themselves wrote into a file.
package fleet
