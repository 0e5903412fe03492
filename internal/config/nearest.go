package config

import "strings"

// nearest is the candidate that name was most likely meant to be, or "" if none is close.
// A difference in case alone is always close; otherwise a third of the letters may differ.
func nearest(name string, candidates []string) string {
	best, bound := "", max(1, len(name)/3)
	for _, c := range candidates {
		if strings.EqualFold(c, name) {
			return c
		}
		if max(len(name)-len(c), len(c)-len(name)) > bound {
			continue // so many letters are missing, or too many
		}
		if d := distance(name, c); d <= bound && (best == "" || d < distance(name, best)) {
			best = c
		}
	}
	return best
}

// distance is the optimal string alignment distance: how many letters have to be inserted,
// deleted, replaced or swapped with their neighbour to make b of a. Swaps count once because
// they are the commonest slip of the keyboard (F. Damerau, Comm. ACM 7(3), 1964).
func distance(a, b string) int {
	// Bytes will do for letters: all names to be compared with are ASCII.
	//
	// The last three rows of the matrix: a swap looks two rows back.
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// oneOf lists words for a message: a, b or c.
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + w + `"`
	}
	if n := len(quoted) - 1; n > 0 {
		return strings.Join(quoted[:n], ", ") + " or " + quoted[n]
	}
	return strings.Join(quoted, "")
}
