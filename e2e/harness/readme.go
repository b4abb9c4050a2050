package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Command is a command in a document, which the reader is to enter.
type Command struct {
	// Line is what follows the prompt; several lines in a block without prompts.
	Line string
	// Output is what the document shows below it.
	Output []string
}

// Topic is the path of a help topic in the repository.
func Topic(name string) string {
	return "internal/help/topics/" + name + ".md"
}

// Commands reads the commands of a Markdown document, in their order: those
// behind the prompts of "console" blocks, and "sh" blocks as one command each,
// because readers paste them as a whole. With a heading of the second level it
// reads that section only. Blocks marked "bash" are not among them: see [Scripts].
func Commands(t testing.TB, document, heading string) []Command {
	t.Helper()
	var list []Command
	for _, block := range blocks(t, document, heading) {
		switch block.language {
		case "sh":
			list = append(list, Command{Line: strings.TrimSpace(block.content)})
		case "console":
			list = append(list, console(block.content)...)
		}
	}
	return list
}

// Scripts reads the "bash" blocks of a section, whose commands need programs that take
// minutes to build.
func Scripts(t testing.TB, document, heading string) []Command {
	t.Helper()
	var list []Command
	for _, block := range blocks(t, document, heading) {
		if block.language == "bash" {
			list = append(list, Command{Line: strings.TrimSpace(block.content)})
		}
	}
	return list
}

// block is a block of code.
type block struct{ language, content string }

// blocks reads the blocks of a document, or of a section of it.
func blocks(t testing.TB, document, heading string) []block {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Root(t), document))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if heading != "" {
		_, section, found := strings.Cut(text, heading+"\n")
		if !found {
			t.Fatalf("%s has no %q", document, heading)
		}
		text, _, _ = strings.Cut(section, "\n## ")
	}
	var list []block
	for i, part := range strings.Split(text, "```") {
		if i%2 == 1 {
			language, content, _ := strings.Cut(part, "\n")
			list = append(list, block{language, content})
		}
	}
	return list
}

func console(content string) []Command {
	var list []Command
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
	return list
}

// Shown reports whether the output has the first word of each line that the document
// shows. The rest of a line may differ.
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
