package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrNeverFires is matched by the error of a spec that is well formed and has no tick, such as
// "0 0 30 2 *".
var ErrNeverFires = errors.New("schedule: never fires")

// maxSpecBytes is above any spec that somebody wrote by hand.
const maxSpecBytes = 512

// A SyntaxError is one fault of what was given to [Parse].
type SyntaxError struct {
	Index  int    // of the spec, from 0; -1: the zone, or the list of specs as such
	Spec   string // the spec as it was given; "" with Index -1
	Field  string // "minute", "day of week", "timezone", …; "" for the whole spec
	Reason string // the value, its bound, and what to write instead

	never bool
}

// Error leads with the quoted spec and the field.
func (e *SyntaxError) Error() string {
	var b strings.Builder
	if e.Index >= 0 {
		spec, cut := e.Spec, ""
		if len(spec) > 80 {
			spec, cut = spec[:80], "…"
		}
		fmt.Fprintf(&b, "%q%s: ", spec, cut)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Reason)
	return b.String()
}

// Is reports whether target is ErrNeverFires and the spec has no tick.
func (e *SyntaxError) Is(target error) bool {
	return e.never && target == ErrNeverFires
}

// descriptors are written out as fields, so that they obey the same rules: @hourly has a
// wildcard hour, as it has in cron(8).
var descriptors = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// A parser collects the faults and the warnings of all specs of one Parse.
type parser struct {
	index    int
	spec     string
	zones    map[string]*zoneTable
	faults   []error
	warnings []string
}

func (p *parser) fault(field, format string, args ...any) {
	p.faults = append(p.faults, &SyntaxError{
		Index: p.index, Spec: p.spec, Field: field, Reason: fmt.Sprintf(format, args...),
	})
}

func (p *parser) neverFires(format string, args ...any) {
	p.faults = append(p.faults, &SyntaxError{
		Index: p.index, Spec: p.spec, Reason: "never fires: " + fmt.Sprintf(format, args...), never: true,
	})
}

func (p *parser) warnf(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf("%q: ", p.spec)+fmt.Sprintf(format, args...))
}

// parse reads one spec. It returns the spec with single blanks, and the rule if nothing was wrong.
func (p *parser) parse(index int, spec, zone string, table *zoneTable) (string, rule) {
	p.index, p.spec = index, spec
	faults := len(p.faults)
	// The parser splits at any blank of Unicode, and a message with a raw control character in it
	// would be unreadable, so these go before everything else.
	if len(spec) > maxSpecBytes {
		p.fault("", "%d bytes are above the limit of %d", len(spec), maxSpecBytes)
		return spec, rule{}
	}
	for _, char := range spec {
		if char != '\t' && (char < ' ' || char > '~') {
			p.fault("", "%q is no character of a spec; plain ASCII on one line is", char)
			return spec, rule{}
		}
	}
	body, prefix := strings.Trim(spec, " \t"), ""
	if name, rest, ok := p.cutZone(body); ok {
		if rest == "" {
			return body, rule{}
		}
		prefix = body[:strings.Index(body, "=")+1] + name + " "
		zone, table, body = name, p.loadZone(name), rest
	}
	var r rule
	switch {
	case body == "":
		p.fault("", "empty; five fields are needed, such as 0 2 * * *")
	case strings.HasPrefix(body, "@every"):
		r.every = p.every(body)
	case strings.HasPrefix(body, "@"):
		if known, ok := descriptors[body]; ok {
			r = p.fields(strings.Fields(known))
		} else {
			p.descriptor(body)
		}
	default:
		r = p.fields(strings.Fields(body))
	}
	text := prefix + strings.Join(strings.Fields(body), " ")
	r.zone = table
	if len(p.faults) == faults && r.every == 0 && table != nil && r.neverFires() {
		p.neverFires("on every date that matches, the clocks of %s skip these times; a wildcard "+
			"minute or hour is not caught up, a fixed one is", zone)
	}
	return text, r
}

// cutZone splits CRON_TZ=ZONE or TZ=ZONE from the front. Without such a prefix it is false. The parser
// has the same prefix, and panics when nothing follows it (robfig/cron #554).
func (p *parser) cutZone(body string) (zone, rest string, ok bool) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		after, found := strings.CutPrefix(body, prefix)
		if !found {
			continue
		}
		i := strings.IndexAny(after, " \t")
		if i < 0 {
			p.fault("", "a zone and no schedule; write %sEurope/Rome 0 2 * * *", prefix)
			return after, "", true
		}
		return after[:i], strings.TrimLeft(after[i:], " \t"), true
	}
	return "", body, false
}

// descriptor says what is wrong with a line that starts with @ and is none we know. They are
// spelt in one way only, as in cron(8): a table should read the same everywhere.
func (p *parser) descriptor(body string) {
	name, _, _ := strings.Cut(strings.ReplaceAll(body, "\t", " "), " ")
	lower := strings.ToLower(name)
	_, known := descriptors[lower]
	switch {
	case lower == "@reboot":
		p.fault("", "@reboot is not supported in a fleet: every host starts at another time, and no tick "+
			"can be agreed on; start the command from a systemd unit instead")
	case known && name != body:
		p.fault("", "nothing may follow %s", name)
	case (known || lower == "@every") && name != lower:
		p.fault("", "%s is unknown; write %s", name, lower)
	default:
		names := []string{"@every 90s"}
		for name := range descriptors {
			names = append(names, name)
		}
		slices.Sort(names)
		p.fault("", "%s is unknown; there are %s", name, strings.Join(names, ", "))
	}
}

// fields reads five fields, or six with seconds in front. All fields are checked, so that one
// reading of the table shows all its faults.
func (p *parser) fields(texts []string) rule {
	if name, _, ok := strings.Cut(texts[0], "="); ok {
		p.fault("", "%s= is no part of a spec; only TZ=ZONE or CRON_TZ=ZONE, in capitals, may come first", name)
		return rule{}
	}
	switch len(texts) {
	case 5:
		texts = append([]string{"0"}, texts...)
	case 6:
	default:
		p.fault("", "%s", countHint(len(texts)))
		return rule{}
	}
	faults := len(p.faults)
	six := make([]string, 0, len(kinds))
	for i := range texts {
		normal, reason := kinds[i].normalize(texts[i])
		if reason != "" {
			p.fault(kinds[i].name, "%s", reason)
		}
		six = append(six, normal)
	}
	if len(p.faults) > faults {
		return rule{}
	}
	f, err := newFields(strings.Join(six, " "), !isWildcard(texts[3]) && !isWildcard(texts[5]))
	if err != nil {
		p.fault("", "%v", err)
		return rule{}
	}
	if !f.possible() {
		p.neverFires("no month %s has a day %s", texts[4], texts[3])
		return rule{}
	}
	// The stars that decide are those of the text: after the check they are gone from the fields.
	p.warnFields(texts, &f)
	return rule{fields: f, fixed: !isWildcard(texts[1]) && !isWildcard(texts[2])}
}

func countHint(n int) string {
	fields := "fields"
	if n == 1 {
		fields = "field"
	}
	hint := "5 are needed (minute, hour, day of month, month, day of week), or 6 with seconds first"
	if n > 6 {
		hint += "; there is no year field, and the command goes elsewhere"
	}
	return fmt.Sprintf("%d %s; %s", n, fields, hint)
}

// isWildcard is ISC cron's test: it looks at the first character only (entry.c).
func isWildcard(field string) bool {
	return field[0] == '*' || field[0] == '?'
}
