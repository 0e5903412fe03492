//go:build race

package preview

// underRace: the fleets of random tables are fewer, each takes many times as long.
const underRace = true
