package controlplane_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

// TestAPI: what the public packages export is what testdata/api.txt has, so that a change of it
// is seen in a review. `go test ./controlplane -run TestAPI -update` writes the file.
func TestAPI(t *testing.T) {
	const golden = "testdata/api.txt"
	exported := "package controlplane\n" + declarations(t, ".") + "\npackage controlplanetest\n" + declarations(t, "controlplanetest")
	if *update {
		if err := os.WriteFile(golden, []byte(exported), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	had, has := strings.Split(string(want), "\n"), strings.Split(exported, "\n")
	for _, line := range had {
		if !slices.Contains(has, line) {
			t.Errorf("no longer exported: %s", line)
		}
	}
	for _, line := range has {
		if !slices.Contains(had, line) {
			t.Errorf("newly exported: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if the change is meant, run this test with -update, and name it in the changelog")
	}
}

// declarations returns the exported declarations of the package in dir, without comments and
// bodies, in the order of their text.
func declarations(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				function.Body = nil
				if function.Recv != nil && !isExported(function.Recv.List[0].Type) {
					continue
				}
			}
			if d, ok := declaration.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
				continue
			}
			var text bytes.Buffer
			if err := format.Node(&text, token.NewFileSet(), declaration); err != nil {
				t.Fatal(err)
			}
			list = append(list, text.String())
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n") + "\n"
}

// isExported reports whether the type of a receiver is exported.
func isExported(receiver ast.Expr) bool {
	switch r := receiver.(type) {
	case *ast.StarExpr:
		return isExported(r.X)
	case *ast.IndexExpr:
		return isExported(r.X)
	case *ast.IndexListExpr:
		return isExported(r.X)
	case *ast.Ident:
		return r.IsExported()
	}
	return false
}
