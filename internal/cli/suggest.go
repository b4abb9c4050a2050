package cli

import "strings"

// maxDistance is how many characters a suggestion may differ in.
const maxDistance = 2

// nearest returns the candidate that typed was probably meant to be, or "".
// A candidate that typed begins with counts as near.
func nearest(typed string, candidates []string) string {
	best, distance := "", maxDistance+1
	for _, candidate := range candidates {
		d := editDistance(strings.ToLower(typed), candidate)
		if len(typed) >= 3 && strings.HasPrefix(candidate, typed) {
			d = min(d, 1)
		}
		if d < distance && d < len(candidate) {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance is the number of characters to insert, remove or replace to make
// one text of the other (Levenshtein), in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
