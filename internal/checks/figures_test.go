package checks_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// figureNames returns the names of the figures of `make bench`, from the source: the first
// field of each value of the type figure, and the first argument of crdFigureOf.
func figureNames(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "..", "e2e", "bench", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	add := func(values []ast.Expr) {
		if len(values) == 0 {
			return
		}
		first := values[0]
		if field, ok := first.(*ast.KeyValueExpr); ok {
			first = field.Value
		}
		if text, ok := first.(*ast.BasicLit); ok {
			if name, err := strconv.Unquote(text.Value); err == nil {
				names[name] = true
			}
		}
	}
	isFigure := func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return ok && name.Name == "figure"
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "crdFigureOf" {
					add(n.Args)
				}
			case *ast.CompositeLit:
				if list, ok := n.Type.(*ast.ArrayType); ok && isFigure(list.Elt) {
					for _, element := range n.Elts {
						if element, ok := element.(*ast.CompositeLit); ok {
							add(element.Elts)
						}
					}
				} else if isFigure(n.Type) {
					add(n.Elts)
				}
			}
			return true
		})
	}
	for _, known := range []string{"start", "crds", "crds-x16", "sizing-objects"} {
		if !names[known] {
			t.Fatalf("the figure %s is not found: has e2e/bench another form?", known)
		}
	}
	return names
}

// benchmarks returns the names of the Go benchmarks of the product.
func benchmarks(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Benchmark\w+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "web" { // sources of the console
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declaration.FindAllSubmatch(source, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// figureList matches "NAME: " or "NAME, NAME: " at the beginning of a part of a cell.
var figureList = regexp.MustCompile(`^\s*([\w-]+(?:, [\w-]+)*): `)

// TestOptimisationsHaveFigures: each row of the table names at the beginning of its last
// cell, and after each semicolon with a colon, figures or benchmarks that exist, and has a
// number.
func TestOptimisationsHaveFigures(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(data), "| what | where | figure, and its command |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no table of optimisations")
	}
	figures, functions := figureNames(t), benchmarks(t)
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || !strings.ContainsAny(cells[3], "0123456789") {
			t.Errorf("an optimisation has no figure: %s", row)
			continue
		}
		for i, part := range strings.Split(cells[3], "; ") {
			named := figureList.FindStringSubmatch(part)
			if named == nil && i == 0 {
				t.Errorf("the last cell does not begin with the name of a figure: %s", row)
			}
			if named == nil {
				continue
			}
			for name := range strings.SplitSeq(named[1], ", ") {
				if !figures[name] && !functions[name] {
					t.Errorf("make bench has no figure %s, and there is no such Go benchmark: %s", name, row)
				}
			}
		}
	}
}

// TestFactsNameFiguresThatExist: "(bench, NAME" and "(bench, NAME and NAME" in the facts about
// upstream, and their benchmarks.
func TestFactsNameFiguresThatExist(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "upstream", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	figures, functions := figureNames(t), benchmarks(t)
	bench, function := regexp.MustCompile(`\(bench,?\s+([\w-]+(?:(?:, | and )[\w-]+)*)`), regexp.MustCompile(`\bBenchmark\w+`)
	count := 0
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(source), "\n//", "")
		for _, match := range bench.FindAllStringSubmatch(text, -1) {
			for name := range strings.SplitSeq(strings.ReplaceAll(match[1], " and ", ", "), ", ") {
				if count++; !figures[name] {
					t.Errorf("%s names the figure %s, which make bench does not have", path, name)
				}
			}
		}
		for _, name := range function.FindAllString(text, -1) {
			if !functions[name] {
				t.Errorf("%s names %s, which does not exist", path, name)
			}
		}
	}
	if count == 0 {
		t.Error("no fact names a figure")
	}
}
