//go:build !race

package fleet

const raceFlag = "-race=false"
