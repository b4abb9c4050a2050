package checks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
	maxLineLength    = 120
)

// TestSourcesAreShortAndDocumented: files, functions and lines stay within the limits of
// CONTRIBUTING.md, and what is exported has a comment. Tests are not held to it.
func TestSourcesAreShortAndDocumented(t *testing.T) {
	check := func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (entry.Name() == "web" || entry.Name() == "examples") { // sources of the console, modules
			return fs.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		line := func(position token.Pos) int { return positions.Position(position).Line }
		if n := line(file.FileEnd); n > maxFileLines+1 {
			t.Errorf("%s has more than %d lines", path, maxFileLines)
		}
		starts := positions.File(file.FileStart).Lines()
		for i, start := range starts[1:] {
			if start-starts[i]-1 > maxLineLength {
				t.Errorf("%s:%d: the line is longer than %d", path, i+1, maxLineLength)
			}
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if n := line(d.End()) - line(d.Pos()) + 1; n > maxFunctionLines {
					t.Errorf("%s:%d: %s has %d lines, more than %d", path, line(d.Pos()), d.Name, n, maxFunctionLines)
				}
				if d.Name.IsExported() && d.Doc == nil {
					t.Errorf("%s:%d: %s has no comment", path, line(d.Pos()), d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
						t.Errorf("%s:%d: %s has no comment", path, line(s.Pos()), s.Name)
					}
				}
			}
		}
		return nil
	}
	for _, dir := range append(slices.Collect(maps.Values(public)), root) {
		if err := filepath.WalkDir(dir, check); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPackagesHaveDoc: each package has a doc.go, as the README says.
func TestPackagesHaveDoc(t *testing.T) {
	for name := range packageImports(t) {
		if _, err := os.Stat(filepath.Join(directory(name), "doc.go")); err != nil {
			t.Errorf("the package %s has no doc.go: %v", name, err)
		}
	}
}
