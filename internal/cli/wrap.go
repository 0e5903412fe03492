package cli

import (
	"strings"
	"unicode/utf8"
)

// proseWidth is how long the lines are of what is said in sentences.
const proseWidth = 80

// wrap breaks text at its spaces into lines of at most so many characters. A word that is longer has a line
// of its own. Width 0 or below: it stays one line.
func wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line, length := "", 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case line == "":
			line, length = word, n
		case length+1+n <= width:
			line, length = line+" "+word, length+1+n
		default:
			lines = append(lines, line)
			line, length = word, n
		}
	}
	return append(lines, line)
}
