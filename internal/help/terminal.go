package help

import (
	"regexp"
	"strings"
)

// Escape sequences of ECMA-48 (select graphic rendition).
const (
	bold  = "\x1b[1m"
	plain = "\x1b[0m"
)

// emphasis matches **bold** and `code`. Neither spans lines in the topics.
var emphasis = regexp.MustCompile("\\*\\*([^*]+)\\*\\*|`([^`]+)`")

// Terminal returns the text for a terminal: headings, emphasis and code in bold,
// code blocks indented by four columns. The Markdown is wrapped at 80 columns and
// its tables are aligned, so that lines stay as they are. Without style there are
// no escape sequences.
func Terminal(markdown string, style bool) string {
	var out strings.Builder
	inCode := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			inCode = !inCode
			continue
		case inCode && line != "":
			line = "    " + line
		case inCode:
		case strings.HasPrefix(line, "#"):
			line = strings.TrimLeft(line, "# ")
			if style {
				line = bold + line + plain
			}
		case isRule(line):
			line = strings.ReplaceAll(line, "|", " ")
			if strings.Trim(line, " -") == "" {
				line = strings.ReplaceAll(line, "-", "─")
			}
		case style:
			line = emphasis.ReplaceAllString(line, bold+"$1$2"+plain)
		default:
			line = emphasis.ReplaceAllString(line, "$1$2")
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// isRule reports whether the line separates the head of a table from its rows.
func isRule(line string) bool {
	return strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| --")
}
