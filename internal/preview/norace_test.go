//go:build !race

package preview

const underRace = false
