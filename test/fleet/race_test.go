//go:build race

package fleet

// raceFlag builds the daemons with the race detector where the tests have it.
const raceFlag = "-race"
