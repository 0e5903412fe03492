package schedule

import (
	"strings"
	"time"
)

// loadZone returns the table of a zone; nil after a fault.
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
		p.fault("timezone", "%q is not in the zone database%s", name, suggestZone(name))
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
	const example = `write the name of a city, such as "Europe/Berlin", or "UTC"`
	switch {
	case name == "":
		return "is empty; " + example
	case name == "Local" || name == "localtime":
		return "is whatever zone a host is set to, and hosts of a fleet may differ; " + example
	case strings.ContainsRune("+-0123456789", rune(name[0])):
		return "is an offset and no zone; " + example
	case name[0] >= 'a' && name[0] <= 'z':
		return "is no zone" + suggestZone(name) + "; " + example
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || !isLetter(part[0]) {
			return "is no zone; " + example
		}
		for _, char := range []byte(part) {
			if !isLetter(char) && !strings.ContainsRune("+-_0123456789", rune(char)) {
				return "is no zone; " + example
			}
		}
	}
	return ""
}

// suggestZone tries the spelling that nearly all names have.
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
			return `; did you mean "` + guess + `"?`
		}
	}
	return ""
}

func isLetter(char byte) bool {
	return char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z'
}
