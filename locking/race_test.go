//go:build race

package locking

const underRace = true
