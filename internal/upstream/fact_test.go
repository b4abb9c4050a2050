package upstream

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
)

// factHeading begins the comment that states a fact.
const factHeading = "Upstream fact: "

// Fact is something that this program relies on and a library does not promise.
type Fact struct {
	// Title in a few words.
	Title string
	// File and Line of the comment, relative to the root that was searched.
	File string
	Line int
	// Mirrors are the symbols that the fact is about, as "import/path.Function",
	// "import/path.Type" or "import/path.Type.Method".
	Mirrors []string
	// Why, Gain and Breaks are for the maintainer who bumps the library.
	Why, Gain, Breaks string
}

// Facts reads the facts in the Go files below root, tests excluded, in the
// order of the files.
func Facts(root string) ([]Fact, error) {
	var facts []Fact
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, comment := range file.Comments {
			if !strings.HasPrefix(comment.Text(), factHeading) {
				continue
			}
			fact, err := parseFact(comment)
			fact.File, fact.Line = filepath.ToSlash(name), files.Position(comment.Pos()).Line
			if err != nil {
				return fmt.Errorf("%s:%d: %w", fact.File, fact.Line, err)
			}
			facts = append(facts, fact)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the facts about upstream: %w", err)
	}
	return facts, nil
}

// parseFact reads the comment's "Key: text" paragraphs.
func parseFact(comment *ast.CommentGroup) (Fact, error) {
	var fact Fact
	var mirrors string
	text := &fact.Title
	for line := range strings.Lines(strings.TrimPrefix(comment.Text(), factHeading)) {
		line = strings.TrimSpace(line)
		for key, field := range map[string]*string{"Mirrors:": &mirrors, "Why:": &fact.Why, "Gain:": &fact.Gain, "Breaks:": &fact.Breaks} {
			if rest, ok := strings.CutPrefix(line, key); ok {
				line, text = rest, field
			}
		}
		*text = strings.TrimSpace(*text + " " + strings.TrimSpace(line))
	}
	fact.Mirrors = strings.Fields(mirrors)
	if fact.Title == "" || len(fact.Mirrors) == 0 || fact.Why == "" || fact.Gain == "" || fact.Breaks == "" {
		return fact, errors.New("a fact needs a title, Mirrors, Why, Gain and Breaks")
	}
	return fact, nil
}
