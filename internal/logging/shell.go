package logging

import (
	"regexp"
	"strings"
)

// unsafe matches characters that a shell does not accept in an unquoted word. Letters
// of all languages are accepted.
var unsafe = regexp.MustCompile(`[^\pL\pN_@%+=:,./-]`)

// ShellWord quotes the word for a shell, for commands that users paste: in single
// quotes if it has spaces or other special characters.
func ShellWord(word string) string {
	if word != "" && !unsafe.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
