package logging

import (
	"regexp"
	"strings"
)

// unsafe matches what a shell does not take as part of a plain word. Letters of all
// languages are plain.
var unsafe = regexp.MustCompile(`[^\pL\pN_@%+=:,./-]`)

// ShellWord returns the word as a shell takes it, for commands that users paste:
// in single quotes, where it has spaces or other special characters.
func ShellWord(word string) string {
	if word != "" && !unsafe.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
