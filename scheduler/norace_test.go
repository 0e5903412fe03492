//go:build !race

package scheduler

const underRace = false
