package help

import (
	"embed"
	"path"
	"slices"
	"strings"
)

//go:embed topics/*.md
var files embed.FS

// Topic is a help text on a subject that several commands or fields share.
type Topic struct {
	// Name is what follows "help" on the command line.
	Name string
	// Title is the heading of the text, one line.
	Title string
	// Markdown is the whole text, title included.
	Markdown string
}

// Topics returns all topics, sorted by name. Reading what is compiled into the
// program does not fail; a test holds that each file begins with "# TITLE".
func Topics() []Topic {
	entries, _ := files.ReadDir("topics")
	topics := make([]Topic, 0, len(entries))
	for _, entry := range entries {
		text, _ := files.ReadFile("topics/" + entry.Name())
		title, _, _ := strings.Cut(string(text), "\n")
		topics = append(topics, Topic{
			Name:     strings.TrimSuffix(entry.Name(), path.Ext(entry.Name())),
			Title:    strings.TrimPrefix(title, "# "),
			Markdown: string(text),
		})
	}
	return topics
}

// Find returns the topic of that name; "archive" is a former name of "journal".
func Find(topics []Topic, name string) (Topic, bool) {
	if name == "archive" {
		name = "journal"
	}
	i := slices.IndexFunc(topics, func(t Topic) bool { return t.Name == name })
	if i < 0 {
		return Topic{}, false
	}
	return topics[i], true
}
