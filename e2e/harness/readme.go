package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Command is one that the README has somebody enter.
type Command struct {
	// Line is what follows the prompt.
	Line string
	// Output is what the README shows below it.
	Output []string
}

// Console reads the commands of the consoles between a heading of the README,
// with its number signs, and the next one of the second level.
func Console(t testing.TB, heading string) []Command {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), heading+"\n")
	if !found {
		t.Fatalf("the README has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var list []Command
	for i, block := range strings.Split(section, "```") {
		content, isConsole := strings.CutPrefix(block, "console\n")
		if i%2 == 0 || !isConsole {
			continue
		}
		for line := range strings.Lines(content) {
			line = strings.TrimSpace(line)
			switch entered, isCommand := strings.CutPrefix(line, "$ "); {
			case isCommand:
				list = append(list, Command{Line: entered})
			case line != "" && len(list) > 0:
				last := &list[len(list)-1]
				last.Output = append(last.Output, line)
			}
		}
	}
	return list
}

// Shown says whether the output has what the README shows, apart from what
// differs each time: it looks for the first word of each line.
func (c Command) Shown(output string) bool {
	for _, line := range c.Output {
		if line == "..." {
			continue // and so on
		}
		if !strings.Contains(output, strings.Fields(line)[0]) {
			return false
		}
	}
	return true
}
