//go:build race

package scheduler

const underRace = true
