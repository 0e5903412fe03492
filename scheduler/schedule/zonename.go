package schedule

import (
	"strings"
	"time"
)

// loadZone returns the table of a zone; nil after a fault. A zone is loaded once a Schedule.
//
// LoadLocation looks at $ZONEINFO, then in the system's directories, then at the database compiled in. It
// never falls back to UTC, which some schedulers do without a word.
func (p *parser) loadZone(name string) *zoneTable {
	if table := p.zones[name]; table != nil {
		return table
	}
	if reason := refuseZone(name); reason != "" {
		p.fault("timezone", "%q %s", name, reason)
		return nil
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		p.fault("timezone", "%q is not in the zone database; %s", name, suggestZone(name))
		return nil
	}
	p.zones[name] = newZoneTable(location)
	p.warnZone(name)
	return p.zones[name]
}

// refuseZone says why a name cannot be a zone's, or "". LoadLocation by itself takes "" as UTC and
// "Local" as the host's zone, and on the way reads any file below the zone database's
// directory: "posixrules", "right/UTC" with its leap seconds.
func refuseZone(name string) string {
	switch {
	case name == "":
		return "is empty; " + zoneHint
	case name == "Local" || name == "localtime":
		return "is whatever zone a host is set to, and hosts of a fleet may differ; " + zoneHint
	case strings.ContainsRune("+-0123456789", rune(name[0])):
		// An offset says nothing about summer time, and its sign is read both ways: POSIX' UTC+5 and
		// Etc/GMT+5 are behind UTC, ISO 8601's +05:00 is ahead of it.
		return "is an offset and no zone; " + zoneHint
	case name[0] >= 'a' && name[0] <= 'z':
		return "is no zone; " + suggestZone(name)
	}
	// All names of the database have this shape, and with it none leaves its directory.
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || !isLetter(part[0]) {
			return "is no zone; " + zoneHint
		}
		for _, char := range []byte(part) {
			if !isLetter(char) && !strings.ContainsRune("+-_0123456789", rune(char)) {
				return "is no zone; " + zoneHint
			}
		}
	}
	return ""
}

const zoneHint = `write the name of a city, such as "Europe/Berlin", or "UTC"`

// suggestZone tries the spelling that nearly all names have, since the wrong case is the usual slip:
// a file system that ignores case has loaded the name where it was tried out.
func suggestZone(name string) string {
	spelt, start := []byte(strings.ToLower(name)), true
	for i, char := range spelt {
		if start && isLetter(char) {
			spelt[i] -= 'a' - 'A'
		}
		start = char == '/' || char == '_' || char == '-'
	}
	for _, guess := range []string{string(spelt), strings.ToUpper(name)} {
		if guess == name || refuseZone(guess) != "" {
			continue
		}
		if _, err := time.LoadLocation(guess); err == nil {
			return `did you mean "` + guess + `"?`
		}
	}
	return zoneHint
}

func isLetter(char byte) bool {
	return char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z'
}
