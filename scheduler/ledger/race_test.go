//go:build race

package ledger

// underRace: the model runs fewer seeds, each takes many times as long.
const underRace = true
